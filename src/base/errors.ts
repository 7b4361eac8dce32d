/**
 * An error the user can act on: one line that names the cause, and the remedy where there is one.
 * The command line prints it without a stack trace and exits with `exitCode` (1 failed, 2 wrong usage).
 */
export class CalmError extends Error {
  readonly remedy: string | undefined;
  readonly exitCode: 1 | 2;

  constructor(message: string, options: { remedy?: string; exitCode?: 1 | 2; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.name = 'CalmError';
    this.remedy = options.remedy;
    this.exitCode = options.exitCode ?? 1;
  }

  /** Cause and remedy in one line. */
  get line(): string {
    const text = this.remedy ? `${this.message}; ${this.remedy}` : this.message;
    return text.trim().replace(/\s*[\r\n\u2028\u2029]\s*/g, ' ');
  }
}

/** A mistake in how a program or function was called (exit code 2). */
export class UsageError extends CalmError {
  constructor(message: string, options: { remedy?: string; cause?: unknown } = {}) {
    super(message, { ...options, exitCode: 2 });
    this.name = 'UsageError';
  }
}

/** The `code` of a Node system error (`ENOENT`, `ENOSPC`, …), if it is one. */
export function systemCode(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : undefined;
}

/** The first few of `names`, and how many more there are. */
export function someOf(names: readonly string[], most = 3): string {
  const more = names.length - most;
  return names.slice(0, most).join(', ') + (more > 0 ? ` and ${more} more` : '');
}
