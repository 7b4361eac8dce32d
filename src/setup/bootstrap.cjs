'use strict';
// `npm start` and `npm test`: nothing is installed when this runs first, so it needs Node alone. It installs the locked
// packages, compiles, hands over to src/setup/index.ts for the rest, and then does the job it was called for.
const { nodeProblem } = require('./node.cjs');
const problem = nodeProblem(process.versions.node);
if (problem) {
  console.error(problem);
  process.exit(1);
}

const fs = require('node:fs');
const path = require('node:path');
const { spawn } = require('node:child_process');
const { acquire } = require('./lock.cjs');
const environment = require('./environment.json');

const root = path.join(__dirname, '..', '..');
const at = (...parts) => path.join(root, ...parts);
const say = (message) => process.stderr.write(`${message}\n`);

/** A failure that has already been put in words. */
class Failure extends Error {}

function packagesOf(file) {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8')).packages;
  } catch {
    return undefined;
  }
}

/** True when npm's own record of what it installed, which it writes last, agrees with the lock file. */
function installed(folder) {
  const locked = packagesOf(path.join(folder, 'package-lock.json'));
  const found = packagesOf(path.join(folder, 'node_modules', '.package-lock.json'));
  if (!locked || !found) return false;
  const same = (name) =>
    found[name]
      ? found[name].version === locked[name].version && found[name].integrity === locked[name].integrity
      : locked[name].optional === true; // for another platform
  return Object.keys(locked).every((name) => name === '' || same(name));
}

/** Runs a command in its own process group under the lock's eye. @returns the exit code */
function runWatched(lock, label, command, args, options) {
  const started = Date.now();
  const child = spawn(command, args, {
    cwd: root,
    stdio: 'inherit',
    detached: process.platform !== 'win32',
    ...options,
  });
  lock.watch(child);
  const beat = process.stderr.isTTY
    ? undefined
    : setInterval(() => say(`  ${label}, ${Math.round((Date.now() - started) / 1000)} s`), 10000);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code) => resolve(code === null ? 1 : code));
  }).finally(() => clearInterval(beat));
}

async function installPackages(lock) {
  if (installed(root)) return;
  say('Installing the locked npm packages');
  // A script's own npm is the one that runs it; without npm around us the shell has to find it.
  const npm = process.env.npm_execpath;
  const args = ['ci', '--include=dev', '--include=optional', '--no-audit', '--no-fund'];
  const code = npm
    ? await runWatched(lock, 'npm ci', process.execPath, [npm, ...args])
    : await runWatched(lock, 'npm ci', 'npm', args, { shell: process.platform === 'win32' });
  if (code !== 0) {
    throw new Failure(
      `npm could not install the packages (the cause is above); check the network and "npm config get registry", then run this again`,
    );
  }
}

async function build(lock) {
  // By file: other packages bring an older `tsc` along.
  const code = await runWatched(lock, 'tsc', process.execPath, [
    at('node_modules/typescript/bin/tsc'),
    '-p',
    at('src'),
  ]);
  if (code !== 0)
    throw new Failure('the TypeScript sources do not compile (the errors are above); correct them and run this again');
}

/** Everything that has to be there before calm-lab can run. @returns what went wrong, as lines */
async function prepare(keepGoing) {
  const wrong = [];
  const lock = await acquire(at('.cache', 'setup.lock'), say);
  try {
    for (const stage of [installPackages, build, (l) => require(at('.build/setup/index.js')).setUp(l)]) {
      try {
        await stage(lock);
      } catch (error) {
        // CalmError knows its line; what nobody foresaw is shown whole.
        wrong.push(error instanceof Failure ? error.message : error.line || error.stack);
        if (!keepGoing || stage === installPackages) break;
      }
    }
  } finally {
    lock.release();
  }
  for (const line of wrong) say(`\nSet-up failed: ${line}\n`);
  return wrong;
}

/** Runs a part of calm-lab as the main job, with the memory settings, and gives back its exit code. */
function runJob(script, args) {
  const child = spawn(process.execPath, [script, ...args], {
    cwd: root,
    stdio: 'inherit',
    env: { ...environment, ...process.env },
  });
  const forward = (signal) => signal !== 'SIGINT' && child.kill(signal); // the terminal sends SIGINT to both
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, forward);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code, signal) => {
      if (signal === 'SIGINT') process.exit(130); // Ctrl-C is meant for all of it
      resolve(code === null ? 1 : code);
    });
  });
}

async function main(verb) {
  if (verb === 'start') {
    const wrong = await prepare(false);
    return wrong.length > 0 ? 1 : runJob(at('.build/cli/main.js'), ['quickstart']);
  }
  if (verb === 'test') {
    const wrong = await prepare(true);
    const { countsLine, runChecks } = require('./checks.cjs');
    if (!installed(root)) {
      console.log(countsLine(undefined));
      return 1;
    }
    return runChecks(root, runJob, wrong.length);
  }
  say(`bootstrap.cjs knows "start" and "test", not "${verb}"`);
  return 2;
}

module.exports = { installed };
if (require.main === module) {
  main(process.argv[2]).then(
    (code) => {
      process.exitCode = code;
    },
    (error) => {
      say(error.stack);
      process.exit(1);
    },
  );
}
