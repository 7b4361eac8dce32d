'use strict';
// One set-up at a time. The lock file names its holder and the command that the holder is running, each by process id
// and start time (ids are used again), so that what a killed set-up left behind is recognised, and what it left running
// is ended before it can write into the next one's work.
const fs = require('node:fs');
const path = require('node:path');
const { execFileSync } = require('node:child_process');

/** When a process started, in whatever unit this system has; undefined when it does not run. */
function startTime(pid) {
  try {
    if (process.platform === 'linux') {
      const fields = fs
        .readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ');
      return fields[0] === 'Z' ? undefined : fields[19];
    }
    if (process.platform !== 'win32') {
      return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim() || undefined;
    }
    process.kill(pid, 0);
    return 'running';
  } catch {
    return undefined;
  }
}

const runs = (who) => who !== undefined && who.start !== undefined && startTime(who.pid) === who.start;
const identity = (pid) => ({ pid, start: startTime(pid) });

function endGroup(pid) {
  try {
    process.kill(process.platform === 'win32' ? pid : -pid, 'SIGKILL');
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}

function read(file) {
  try {
    const text = fs.readFileSync(file, 'utf8');
    return { text, ...JSON.parse(text) };
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    if (error instanceof SyntaxError) return { text: '' };
    throw error;
  }
}

/** Takes a stale lock away, unless another process was quicker and this is a new one already. */
function remove(file, seen) {
  const aside = `${file}.${process.pid}.stale`;
  try {
    fs.renameSync(file, aside);
    if (seen.text && fs.readFileSync(aside, 'utf8') !== seen.text) fs.linkSync(aside, file);
  } catch (error) {
    if (error.code !== 'ENOENT' && error.code !== 'EEXIST') throw error;
  } finally {
    fs.rmSync(aside, { force: true });
  }
}

/**
 * Waits until no other set-up runs, then holds `file` until `release()`, or until this process ends in any way.
 * @param {string} file
 * @param {(message: string) => void} say is told when there is something to wait for
 */
async function acquire(file, say) {
  const own = { owner: identity(process.pid), child: undefined };
  const partial = `${file}.${process.pid}.partial`;
  let waiting = false;
  fs.mkdirSync(path.dirname(file), { recursive: true });
  for (;;) {
    fs.writeFileSync(partial, JSON.stringify(own));
    try {
      fs.linkSync(partial, file); // appears with its contents, or not at all
      break;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    } finally {
      fs.rmSync(partial, { force: true });
    }
    const seen = read(file);
    if (seen === undefined) continue;
    if (runs(seen.owner)) {
      if (!waiting) say(`another set-up is running here (process ${seen.owner.pid}), waiting for it`);
      waiting = true;
      await new Promise((resolve) => setTimeout(resolve, 300));
      continue;
    }
    if (runs(seen.child)) endGroup(seen.child.pid);
    remove(file, seen);
  }

  let held = true;
  function release() {
    if (!held) return;
    held = false;
    if (own.child) endGroup(own.child.pid);
    fs.rmSync(file, { force: true });
    for (const signal of signals) process.removeListener(signal, stop);
    process.removeListener('exit', release);
  }
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  function stop(signal) {
    release();
    say('interrupted; run it again to go on where it stopped');
    process.exit(signal === 'SIGINT' ? 130 : 143);
  }
  for (const signal of signals) process.on(signal, stop);
  process.on('exit', release);

  /** Notes the command being run, which must lead its own process group. */
  function watch(child) {
    if (child.pid === undefined) return;
    const note = (who) => {
      if (!held) return;
      own.child = who;
      fs.writeFileSync(partial, JSON.stringify(own));
      fs.renameSync(partial, file);
    };
    note(identity(child.pid));
    child.on('exit', () => note(undefined));
  }
  return { watch, release };
}

module.exports = { acquire, startTime };
