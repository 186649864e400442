#!/usr/bin/env python3
"""Checks a configuration profile against Apple's schema of the payloads that it uses: check-profile.py FILE.

The keys, types and values are those of github.com/apple/device-management, mdm/profiles: TopLevel.yaml,
CommonPayloadKeys.yaml, com.apple.servicemanagement.yaml and com.apple.MCX(EnergySaver).yaml.
"""
import plistlib
import sys
import uuid

RULE_TYPES = {"BundleIdentifier", "BundleIdentifierPrefix", "Label", "LabelPrefix", "TeamIdentifier"}
# For each key: its type, and its values. Timers are in minutes; 0 means never.
POWER = {name: (int, range(181)) for name in ("Display Sleep Timer", "Disk Sleep Timer", "System Sleep Timer")} | {
    name: (int, range(2))
    for name in ("Wake on LAN", "Wake On Modem Ring", "Automatic Restart On Power Loss", "Reduce Processor Speed")
}
COMMON = {"PayloadType", "PayloadVersion", "PayloadIdentifier", "PayloadUUID"}
OPTIONAL = {"PayloadDisplayName", "PayloadDescription", "PayloadOrganization"}


def need(condition, text):
    if not condition:
        sys.exit(f"check-profile.py: {text}")


def check_common(payload, where):
    missing = COMMON - payload.keys()
    need(not missing, f"{where} lacks {sorted(missing)}")
    need(type(payload["PayloadVersion"]) is int, f"{where}: PayloadVersion is not an integer")
    uuid.UUID(payload["PayloadUUID"])


def check_service_management(payload, where):
    need(isinstance(payload["Rules"], list) and payload["Rules"], f"{where}: Rules is not a list of rules")
    for rule in payload["Rules"]:
        need(rule.keys() <= {"RuleType", "RuleValue", "Comment"}, f"{where}: unknown key in {rule}")
        need(rule["RuleType"] in RULE_TYPES, f"{where}: RuleType {rule['RuleType']}; valid are {sorted(RULE_TYPES)}")
        need(isinstance(rule["RuleValue"], str) and rule["RuleValue"], f"{where}: RuleValue is not a text")
    return {"Rules"}


def check_energy(payload, where):
    names = {f"com.apple.EnergySaver.{kind}" for kind in ("desktop.ACPower", "portable.ACPower", "portable.BatteryPower")}
    for name in names & payload.keys():
        for key, value in payload[name].items():
            need(key in POWER, f"{where}: {name} has no key {key}")
            kind, values = POWER[key]
            need(type(value) is kind and value in values, f"{where}: {key} is {value!r}; valid are the integers {values[0]} to {values[-1]}")
    return names


CHECKS = {"com.apple.servicemanagement": check_service_management, "com.apple.MCX": check_energy}


def main(path):
    with open(path, "rb") as file:
        profile = plistlib.load(file)
    check_common(profile, path)
    need(profile["PayloadType"] == "Configuration", f"{path}: PayloadType is not Configuration")
    need(profile.get("PayloadScope") == "System", f"{path}: both payloads are of the device channel: PayloadScope must be System")
    payloads = profile["PayloadContent"]
    for payload in payloads:
        where = payload.get("PayloadIdentifier", path)
        check_common(payload, where)
        need(payload["PayloadType"] in CHECKS, f"{where}: no schema for {payload['PayloadType']} here")
        unknown = payload.keys() - COMMON - OPTIONAL - CHECKS[payload["PayloadType"]](payload, where)
        need(not unknown, f"{where}: unknown keys {sorted(unknown)}")
    ids = [payload["PayloadUUID"] for payload in [profile, *payloads]]
    need(len(set(ids)) == len(ids), f"{path}: two payloads have one PayloadUUID")
    print(f"{path}: {len(payloads)} payloads, valid")


if __name__ == "__main__":
    main(sys.argv[1])
