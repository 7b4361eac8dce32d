import { setTimeout as sleep } from 'node:timers/promises';
import { CalmError, systemCode, UsageError } from '../base/errors';

const PUBLIC_HUB = 'https://huggingface.co';
const TRIES = 4;
const REDIRECTS = 5;
/** The longest wait a server is granted, in milliseconds; the hub counts requests over five minutes. */
const LONGEST_WAIT = 300_000;

/** A server that speaks as Hugging Face's hub does, and how patient to be with it. */
export interface Hub {
  /** Its address, without a slash at the end. */
  endpoint: string;
  /** Sent to the endpoint itself and to nobody else. */
  token?: string;
  /** Milliseconds without a byte after which a connection counts as cut. */
  silence: number;
  /** Waits some milliseconds before another try. */
  wait: (milliseconds: number) => Promise<unknown>;
  /** Is told, in a line, why there is a wait. */
  notice: (line: string) => void;
}

export type HubOptions = Partial<Hub>;

/** The hub that HF_ENDPOINT and HF_TOKEN name, where the options do not. @throws UsageError when they cannot be used */
export function hubOf(options: HubOptions = {}): Hub {
  const endpoint = (options.endpoint ?? (process.env['HF_ENDPOINT'] || PUBLIC_HUB)).trim().replace(/\/+$/, '');
  if (!URL.canParse(endpoint) || !/^https?:$/.test(new URL(endpoint).protocol)) {
    throw new UsageError(`the hub's address "${endpoint}" is not one`, {
      remedy: `set HF_ENDPOINT to one like ${PUBLIC_HUB}`,
    });
  }
  const token = (options.token ?? process.env['HF_TOKEN'] ?? '').trim();
  if (!/^[\x21-\x7e]*$/.test(token)) throw new UsageError('HF_TOKEN is not a token', { remedy: 'copy it again' });
  const { silence = 30_000, wait = sleep, notice = () => undefined } = options;
  return { endpoint, silence, wait, notice, ...(token && { token }) };
}

/** No connection can be had at all; what else to do is for the caller to say. */
export class Unreachable extends CalmError {
  override name = 'Unreachable';
}

/** A failure that may pass, so that it is worth another try. */
export class Passing extends CalmError {
  /** @param after milliseconds to wait, where that is known */
  constructor(
    message: string,
    readonly after?: number,
    cause?: unknown,
  ) {
    super(message, { remedy: 'run again later, what has been downloaded is kept', cause });
  }
}

/** Tries again after 1, 2 and 4 seconds, or after as long as the server asks for. */
export async function withRetries<T>(hub: Hub, attempt: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Passing) || tries === TRIES) throw error;
      const after = Math.min(error.after ?? 1000 * 2 ** (tries - 1), LONGEST_WAIT);
      if (after > 0) hub.notice(`${error.message}, trying again in ${Math.ceil(after / 1000)} s`);
      await hub.wait(after);
    }
  }
}

/** What a server tells of a file on the way to it. */
interface Told {
  /** In bytes. */
  size?: number;
  /** In hexadecimal. */
  sha256?: string;
}

export interface Answer {
  response: Response;
  told: Told;
  /** To be called with every byte that arrives, or the connection counts as silent. */
  heard: () => void;
}

/**
 * Asks for what is at an address, from a byte on, and hands the answer (status 200, 206, or 416 for a byte beyond the
 * end) to `use`; the connection is closed when that is done.
 * @throws Unreachable; CalmError for answers that will stay as they are; Passing for all that may change
 */
export async function exchange<T>(
  hub: Hub,
  address: string,
  from: number,
  use: (answer: Answer) => Promise<T>,
): Promise<T> {
  const control = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => control.abort(), hub.silence);
  };
  const told: Told = {};
  let url = new URL(address);
  try {
    for (let redirects = 0; redirects <= REDIRECTS; redirects++) {
      heard();
      const headers = headersFor(hub, url, from);
      const response = await fetch(url, { headers, redirect: 'manual', signal: control.signal });
      heard();
      listen(told, response.headers);
      const location = response.headers.get('location');
      if (response.status < 300 || response.status > 399 || location === null) {
        if (!response.ok && !(response.status === 416 && from > 0)) throw refusal(hub, address, response);
        return await use({ response, told, heard });
      }
      await response.body?.cancel();
      const next = new URL(location, url);
      if (url.protocol === 'https:' && next.protocol !== 'https:')
        throw new CalmError(`${address} redirects to ${next.host} without encryption`);
      url = next;
    }
    throw new CalmError(`${address} redirects more than ${REDIRECTS} times`, { remedy: 'check HF_ENDPOINT' });
  } catch (error) {
    if (error instanceof CalmError) throw error;
    throw networkError(error, url.host, control.signal.aborted ? hub.silence : undefined);
  } finally {
    clearTimeout(timer);
    control.abort();
  }
}

function headersFor({ endpoint, token }: Hub, url: URL, from: number): Record<string, string> {
  const own = url.origin === new URL(endpoint).origin;
  return {
    'user-agent': 'calm-lab',
    'accept-encoding': 'identity', // or sizes and ranges would be those of compressed bytes
    ...(from > 0 && { range: `bytes=${from}-` }),
    ...(token !== undefined && own && { authorization: `Bearer ${token}` }),
  };
}

/** Takes down what the hub says of a large file; it does so where it redirects to the store that has it. */
function listen(told: Told, headers: Headers): void {
  const sha256 = /^"?([0-9a-f]{64})"?$/i.exec(headers.get('x-linked-etag') ?? '')?.[1];
  if (sha256 !== undefined) told.sha256 = sha256.toLowerCase();
  const size = headers.get('x-linked-size');
  if (size !== null && /^\d+$/.test(size)) told.size = Number(size);
}

function refusal({ token }: Hub, address: string, { status, headers }: Response): CalmError {
  const message = `${address} answers ${status}`;
  if (status === 408 || status === 429 || status >= 500) return new Passing(message, retryAfter(headers));
  if (status === 401 || status === 403) {
    const remedy = token
      ? 'the account of HF_TOKEN may not read it: its page on the hub may ask to accept terms first'
      : 'it may need HF_TOKEN, the token of an account that may read it';
    return new CalmError(message, { remedy });
  }
  if (status === 404) return new CalmError(`${address} does not exist (404)`, { remedy: 'look for it on the hub' });
  return new CalmError(message, { remedy: 'check HF_ENDPOINT' });
}

/** Milliseconds; the header has seconds or a date. */
function retryAfter(headers: Headers): number | undefined {
  const text = headers.get('retry-after');
  if (text === null) return undefined;
  const milliseconds = /^\s*\d+\s*$/.test(text) ? 1000 * Number(text) : Date.parse(text) - Date.now();
  return Number.isNaN(milliseconds) ? undefined : Math.max(0, milliseconds);
}

/** Codes of a network that is not there, as opposed to one that is cut. */
const NO_NETWORK =
  /^(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENETUNREACH|EHOSTUNREACH|ENETDOWN|ETIMEDOUT|EACCES|EPERM|UND_ERR_CONNECT_TIMEOUT)$|^(CERT_|ERR_TLS_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_)/;

function networkError(error: unknown, host: string, silentFor: number | undefined): CalmError {
  if (silentFor !== undefined) return new Passing(`${host} was silent for ${silentFor / 1000} s`, undefined, error);
  const root = rootCause(error);
  const reason = systemCode(root) ?? (root instanceof Error ? root.message : String(root));
  if (NO_NETWORK.test(reason)) return new Unreachable(`cannot reach ${host} (${reason})`, { cause: error });
  return new Passing(`the connection to ${host} was cut (${reason})`, undefined, error);
}

/** fetch says "fetch failed", and why in its cause. */
function rootCause(error: unknown): unknown {
  return error instanceof Error && error.cause !== undefined ? rootCause(error.cause) : error;
}

/** The JSON value at an address. @throws CalmError in one line */
export async function getJson(hub: Hub, address: string): Promise<unknown> {
  const text = await withRetries(hub, () => exchange(hub, address, 0, ({ response }) => response.text()));
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CalmError(`what ${address} answers is not JSON`, { remedy: 'check HF_ENDPOINT', cause: error });
  }
}
