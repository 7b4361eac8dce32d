import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import * as net from 'node:net';
import * as os from 'node:os';
import * as path from 'node:path';

const COMMANDS = ['munged', 'slurmctld', 'slurmd', 'sbatch', 'squeue', 'scancel', 'scontrol'];
// Daemons are not on everybody's path.
const PATH = `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`;

/** Why no Slurm can be started here, or undefined. */
export function slurmMissing(): string | undefined {
  const absent = COMMANDS.filter((name) => !PATH.split(':').some((folder) => fs.existsSync(path.join(folder, name))));
  if (absent.length > 0) return `${absent.join(', ')} not installed`;
  return process.getuid?.() === 0 ? undefined : 'needs root';
}

export interface SlurmServer {
  /** What its commands need in their environment. */
  env: { SLURM_CONF: string };
  stopController(): Promise<void>;
  startController(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts a Slurm of one node, this machine, with everything it writes in one folder: a key and socket of munge of its
 * own, free ports, no cgroups and no accounting, so that it needs nothing of the system's and leaves nothing behind.
 */
export async function startSlurm({ cpus = 4 }: { cpus?: number } = {}): Promise<SlurmServer> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'slurm-'));
  fs.chmodSync(folder, 0o755);
  const at = (name: string) => path.join(folder, name);
  for (const name of ['state', 'spool']) fs.mkdirSync(at(name));
  fs.writeFileSync(at('munge.key'), randomBytes(128), { mode: 0o400 });
  const host = os.hostname().split('.')[0]!;
  const [controllerPort, nodePort] = [await freePort(), await freePort()];
  const mebibytes = Math.floor(os.totalmem() / 2 ** 20) - 512;
  fs.writeFileSync(
    at('slurm.conf'),
    `ClusterName=test
SlurmctldHost=${host}(127.0.0.1)
SlurmctldPort=${controllerPort}
SlurmdPort=${nodePort}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=${at('munge.socket')}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1
StateSaveLocation=${at('state')}
SlurmdSpoolDir=${at('spool')}
SlurmctldPidFile=${at('slurmctld.pid')}
SlurmdPidFile=${at('slurmd.pid')}
SlurmctldLogFile=${at('slurmctld.log')}
SlurmdLogFile=${at('slurmd.log')}
MessageTimeout=3
MinJobAge=300
KillWait=2
ReturnToService=2
MailProg=/bin/true
NodeName=${host} NodeAddr=127.0.0.1 CPUs=${cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket=${cpus} ThreadsPerCore=1 RealMemory=${mebibytes} State=UNKNOWN
PartitionName=main Nodes=${host} Default=YES State=UP
`,
  );
  const env = { SLURM_CONF: at('slurm.conf') };
  const daemons = new Map<string, ChildProcess>();
  const run = (name: string, ...args: string[]) => {
    const log = fs.openSync(at(`${name}.out`), 'a');
    const child = spawn(name, args, { stdio: ['ignore', log, log], env: { ...process.env, ...env, PATH } });
    fs.closeSync(log);
    daemons.set(name, child);
  };
  // Where a test is ended in the middle.
  process.once('exit', () => daemons.forEach((child) => child.kill('SIGKILL')));
  const end = async (name: string) => {
    const child = daemons.get(name);
    daemons.delete(name);
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.on('exit', resolve));
    child.kill('SIGTERM');
    const late = setTimeout(() => child.kill('SIGKILL'), 10_000);
    await ended;
    clearTimeout(late);
  };
  const ask = (...args: string[]) =>
    spawnSync(args[0]!, args.slice(1), { encoding: 'utf8', env: { ...process.env, ...env, PATH }, timeout: 20_000 });
  const until = async (what: string, ready: () => boolean) => {
    for (const stop = Date.now() + 60_000; !ready(); await new Promise((resolve) => setTimeout(resolve, 200))) {
      if (Date.now() < stop) continue;
      const logs = ['munged.out', 'slurmctld.log', 'slurmd.log'].map((name) =>
        fs.existsSync(at(name)) ? `${name}: ${fs.readFileSync(at(name), 'utf8').slice(-500)}` : '',
      );
      throw new Error(`Slurm: ${what} took longer than a minute\n${logs.join('\n')}`);
    }
  };
  const startController = async () => {
    run('slurmctld', '-D');
    await until('the controller', () => ask('squeue', '-h').status === 0);
  };
  const stop = async () => {
    if (daemons.has('slurmctld')) {
      ask('scancel', '--user=root');
      const quiet = () => ask('squeue', '-h').stdout.trim() === '';
      await until('the end of the jobs', quiet).catch(() => undefined);
    }
    for (const name of ['slurmd', 'slurmctld', 'munged']) await end(name);
    fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    run(
      'munged',
      '--foreground',
      '--force',
      `--socket=${at('munge.socket')}`,
      `--key-file=${at('munge.key')}`,
      `--pid-file=${at('munged.pid')}`,
      `--log-file=${at('munged.log')}`,
      `--seed-file=${at('munged.seed')}`,
    );
    await until('munge', () => fs.existsSync(at('munge.socket')));
    run('slurmd', '-D', '-N', host);
    await startController();
    await until('the node', () => /^(idle|mix|alloc)/.test(ask('sinfo', '-h', '-o', '%T').stdout));
  } catch (error) {
    await stop();
    throw error;
  }
  return { env, startController, stopController: () => end('slurmctld'), stop };
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = net.createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address() as net.AddressInfo;
      server.close(() => resolve(address.port));
    });
  });
}
