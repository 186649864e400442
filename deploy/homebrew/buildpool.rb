# A formula for a tap; `url` and `sha256` are those of a release.
class Buildpool < Formula
  desc "Build pool for coding agents and people"
  homepage "https://github.com/buildpool/buildpool"
  url "https://github.com/buildpool/buildpool/archive/refs/tags/v0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license any_of: ["Apache-2.0", "MIT"]
  head "https://github.com/buildpool/buildpool.git", branch: "main"

  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args(path: "cli")
    pkgshare.install "deploy/coordinator.toml", "deploy/worker.toml"
  end

  def caveats
    <<~EOS
      To run jobs of a pool on this Mac, in the session of the user who is logged in:
        buildpool install worker --write --join 'URL#TOKEN'
      The line comes from `buildpool token create --role worker` on the coordinator's machine.
      `buildpool doctor --worker FILE` looks at Xcode, simulators, disk and sleep settings.
    EOS
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/buildpool --version")
    assert_match "passed", pipe_output("#{bin}/buildpool digest --exit-code 0", "ok\n")
  end
end
