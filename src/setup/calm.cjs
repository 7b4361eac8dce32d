#!/usr/bin/env node
'use strict';
// The `calm` command: the memory settings must be in the environment before the process that uses them starts.
const { existsSync } = require('node:fs');
const { spawn } = require('node:child_process');
const path = require('node:path');
const { nodeProblem } = require('./node.cjs');
const environment = require('./environment.json');

const main = path.join(__dirname, '..', '..', '.build', 'cli', 'main.js');
const problem =
  nodeProblem(process.versions.node) || (existsSync(main) ? undefined : 'calm is not built yet; run "npm start" first');
if (problem) {
  console.error(problem);
  process.exit(1);
}

const child = spawn(process.execPath, [...process.execArgv, main, ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { ...environment, ...process.env },
});
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
// A terminal sends SIGINT to both by itself; sending it again would look like a second Ctrl-C.
for (const signal of signals) process.on(signal, () => signal !== 'SIGINT' && child.kill(signal));
child.on('error', (error) => {
  console.error(`cannot start Node at ${process.execPath}: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => {
  if (signal === null) process.exit(code);
  for (const name of signals) process.removeAllListeners(name);
  process.kill(process.pid, signal);
});
