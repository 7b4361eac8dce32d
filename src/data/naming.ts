import { CalmError } from '../base/errors';

/** Runs `build`; whatever error it throws (a library's, say) becomes a CalmError that says `where` first. */
export function naming<T>(where: string, build: () => T): T {
  try {
    return build();
  } catch (error) {
    const { message } = error as Error;
    const remedy = error instanceof CalmError ? error.remedy : undefined;
    throw new CalmError(`${where}: ${message}`, { remedy, cause: error });
  }
}
