#!/usr/bin/env node
// Starts the program of this platform, which npm installs as an optional package.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `@buildpool/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/buildpool`);
} catch {
  console.error(
    `buildpool: the package ${name} is not installed. It holds the program for this platform; ` +
      "available are linux-x64, linux-arm64, darwin-x64 and darwin-arm64. " +
      "Install again without --omit=optional, or take another channel: https://github.com/buildpool/buildpool",
  );
  process.exit(125);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`buildpool: ${program} does not start: ${error.message}`);
  process.exit(125);
});
// A terminal sends its signals to both processes; those of `kill` arrive here only. In both cases the program
// decides when it ends. A repeated signal would mean more to it, so only the others are passed on.
for (const signal of ["SIGINT", "SIGQUIT"]) process.on(signal, () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => {
  process.exit(code ?? 128 + (constants.signals[signal] ?? 0));
});
