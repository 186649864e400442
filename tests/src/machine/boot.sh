#!/bin/sh
# Boots systemd as PID 1 of a machine of its own: boot.sh DIRECTORY HOSTNAME. Runs in new namespaces.
# The machine's disk is this machine's, with a layer over it that is thrown away.
set -eu
top=$1
mount -t tmpfs -o size=1g machine "$top"
mkdir "$top/upper" "$top/work" "$top/root"
mount -t overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" machine "$top/root"
cd "$top/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs sys/fs/cgroup
mkdir sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd systemd sys/fs/cgroup/systemd
# Nothing that this machine's users, services or tests keep is seen inside.
for empty in run tmp var/tmp root home work dev etc/systemd/system; do
    [ ! -d "$empty" ] || mount -t tmpfs -o mode=755 tmpfs "$empty"
done
chmod 1777 tmp var/tmp
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=1777 tmpfs dev/shm
for link in fd:/proc/self/fd stdin:/proc/self/fd/0 stdout:/proc/self/fd/1 stderr:/proc/self/fd/2; do
    ln -s "${link#*:}" "dev/${link%%:*}"
done
# These would change the kernel that all machines share, or wait for hardware.
for unit in systemd-sysctl.service systemd-modules-load.service systemd-binfmt.service systemd-remount-fs.service \
    systemd-tmpfiles-setup-dev.service systemd-udevd.service systemd-udev-trigger.service systemd-hwdb-update.service \
    systemd-logind.service console-getty.service getty.target systemd-networkd.service systemd-timesyncd.service \
    proc-sys-fs-binfmt_misc.automount dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount; do
    ln -s /dev/null "etc/systemd/system/$unit"
done
# What starts beside systemd itself is what the test installs.
rm -rf etc/rc?.d/S*
# The pool's users and data are made as the page says, not found.
for user in buildpool buildpool-worker; do
    sed -i "/^$user:/d" etc/passwd etc/group etc/shadow etc/gshadow
done
rm -rf var/lib/buildpool* etc/buildpool var/log/journal
: >etc/machine-id
echo "$2" >etc/hostname
mkdir -p "$top/root/old"
pivot_root . old
umount -l old
rmdir old
exec env -i container=buildpool-test PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --unit=multi-user.target --log-level=notice --log-target=journal --show-status=no </dev/null
