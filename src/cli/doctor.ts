import type { Command } from 'commander';
import pc from 'picocolors';
import { diagnose, type Diagnosis } from '../setup';
import { finish } from './options';

export function doctor(calm: Command): void {
  calm
    .command('doctor')
    .description('Say what was found on this machine, what is missing, and how to get it')
    .option('--json', 'print one JSON object')
    .action(async (options: { json?: boolean }) => {
      const found = await diagnose();
      finish(options, found, describe(found));
    });
}

function describe(found: Diagnosis): string {
  const { tensorflow, model } = found;
  const line = (ok: boolean, name: string, text: string) =>
    `${ok ? pc.green('ok     ') : pc.red('missing')}  ${name.padEnd(10)}  ${text}`;
  const engine = tensorflow.runs
    ? `TensorFlow ${tensorflow.version ?? ''} (${tensorflow.linked === 'wheel' ? "the wheel's library" : 'upstream prebuilt'}), ${tensorflow.kind.toUpperCase()}`
    : `tfjs's own backend (slow)${tensorflow.reason ? `: ${tensorflow.reason}` : ''}`;
  const compilers = [found.compilers.cxx, found.compilers.make].filter(Boolean).join(', ');
  return [
    line(true, 'node', `${found.node.version}, ${found.platform}`),
    line(found.python !== null, 'python', found.python ? `${found.python.version}, ${found.python.path}` : 'not found'),
    line(tensorflow.runs || compilers !== '', 'compiler', compilers || 'not found'),
    line(tensorflow.runs, 'engine', engine),
    line(true, 'gpu', found.gpu ?? 'none'),
    line(found.jupyter !== null, 'jupyter', found.jupyter ? `JupyterLab ${found.jupyter.version}` : 'not found'),
    line(found.kernel.installed, 'kernel', found.kernel.path),
    line(
      model.sha256_ok,
      'model',
      `${model.name}, ${model.path}${model.present && !model.sha256_ok ? ' (damaged)' : ''}`,
    ),
    line(found.data.starter, 'data', found.data.path),
    ...(found.missing.length > 0 ? ['', 'What is missing, and how to get it:'] : ['', 'Nothing is missing.']),
    ...found.missing.map(({ what, how }) => `  ${what}: ${how}`),
  ].join('\n');
}
