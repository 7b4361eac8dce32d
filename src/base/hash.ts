import { createHash } from 'node:crypto';

/** First 16 hexadecimal digits of the SHA-256 of a content. */
export function shortHash(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex').slice(0, 16);
}
