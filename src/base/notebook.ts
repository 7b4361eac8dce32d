import { randomUUID } from 'node:crypto';

/** Content by MIME type. */
export type Bundle = Record<string, unknown>;
/** Sends a display message, or an update of the display of that id. */
export type Send = (message: { data: Bundle; metadata: Bundle; transient: Bundle }, update: boolean) => void;

/**
 * The message writer of the tslab kernel that this runs in, if it does. What tslab's own `display` calls is called here,
 * for that sends one MIME type a message, which would show a figure twice. The kernel need not be the tslab of this
 * project: one that is installed nearer to the notebook takes its place.
 */
export function notebook(): Send | undefined {
  for (const [file, module] of Object.entries(require.cache)) {
    if (!/[\\/]tslab[\\/]dist[\\/]jupyter\.js$/.test(file)) continue;
    const { lastWriteDisplayData } = module?.exports as { lastWriteDisplayData?: Send | null };
    if (lastWriteDisplayData) return lastWriteDisplayData;
  }
  return undefined;
}

/** A place in the cell whose text can be replaced; none outside a notebook. */
export function notebookText(): ((text: string) => void) | undefined {
  if (!notebook()) return undefined;
  const transient = { display_id: randomUUID() };
  let update = false;
  return (text) => {
    // Asked anew: the writer belongs to the cell that runs.
    notebook()?.({ data: { 'text/plain': text }, metadata: {}, transient }, update);
    update = true;
  };
}
