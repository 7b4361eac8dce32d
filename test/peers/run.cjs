'use strict';
// What the comparisons with other software share.
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const environment = require('../../src/setup/environment.json');

/** Runs a command with the project's memory settings, and gives the JSON of its last line. */
function run(command, args) {
  const out = execFileSync(command, args, {
    env: { ...environment, ...process.env },
    maxBuffer: 2 ** 30,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return JSON.parse(out.toString().trim().split('\n').pop());
}

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor((list.length - 1) / 2)];

/** The most memory that this process has had, in MiB. */
const peakMib = () => /VmHWM:\s*(\d+)/.exec(fs.readFileSync('/proc/self/status', 'utf8'))[1] / 1024;

module.exports = { median, peakMib, run };
