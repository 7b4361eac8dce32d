import { afterEach, describe, expect, it, vi } from 'vitest';
import { getJson, hubOf, Unreachable } from '../../src/data/hub';
import { closedPort, failure, patient, serve } from './hub-server';

afterEach(() => {
  vi.unstubAllEnvs();
  vi.useRealTimers();
});

describe('a server that refuses', () => {
  it('is asked again after as long as it says, in seconds or by date', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2030, 0, 1) });
    const after = ['7', 'Tue, 01 Jan 2030 00:00:09 GMT', '100000'];
    const { origin } = await serve((_request, response, nth) => {
      const header = after[nth];
      return header ? response.writeHead(429, { 'retry-after': header }).end() : response.end('[1]');
    });
    const { hub, waits } = patient(origin);
    expect(await getJson(hub, origin)).toEqual([1]);
    expect(waits).toEqual([7000, 9000, 300_000]);
  });

  it.each([
    [500, 4, 'answers 500; run again later'],
    [503, 4, 'answers 503; run again later'],
    [429, 4, 'answers 429; run again later'],
    [404, 1, 'does not exist (404); look for it on the hub'],
    [401, 1, 'answers 401; it may need HF_TOKEN'],
    [403, 1, 'answers 403; it may need HF_TOKEN'],
    [418, 1, 'answers 418; check HF_ENDPOINT'],
  ])('with %d is asked %d times', async (status, times, message) => {
    const { origin, hits } = await serve((_request, response) => response.writeHead(status).end('no'));
    const { hub, waits } = patient(origin);
    expect((await failure(getJson(hub, `${origin}/x`))).line).toContain(`${origin}/x ${message}`);
    expect(hits).toHaveLength(times);
    expect(waits).toEqual([1000, 2000, 4000].slice(0, times - 1));
  });

  it('a token is told so, without showing it', async () => {
    const { origin } = await serve((_request, response) => response.writeHead(403).end());
    const { line } = await failure(getJson(patient(origin, { token: 'hf_secret' }).hub, origin));
    expect(line).toContain('the account of HF_TOKEN may not read it');
    expect(line).not.toContain('hf_secret');
  });
});

describe('the hub', () => {
  it('is that of the environment, else the public one', () => {
    vi.stubEnv('HF_ENDPOINT', '');
    vi.stubEnv('HF_TOKEN', '');
    expect(hubOf()).toMatchObject({ endpoint: 'https://huggingface.co' });
    expect(hubOf()).not.toHaveProperty('token');
    vi.stubEnv('HF_ENDPOINT', 'https://mirror.example/hf/');
    vi.stubEnv('HF_TOKEN', 'hf_x\n');
    expect(hubOf()).toMatchObject({ endpoint: 'https://mirror.example/hf', token: 'hf_x' });
  });

  it.each([
    [{ endpoint: 'mirror' }, 'the hub\'s address "mirror" is not one; set HF_ENDPOINT'],
    [{ endpoint: 'file:///etc' }, 'is not one; set HF_ENDPOINT'],
    [{ token: 'hf_ä' }, 'HF_TOKEN is not a token'],
  ])('refuses %o', (options, message) => {
    expect(() => hubOf(options)).toThrow(expect.objectContaining({ line: expect.stringContaining(message) as string }));
  });

  it('is out of reach at once where nobody listens', async () => {
    const endpoint = await closedPort();
    const { hub, waits } = patient(endpoint);
    const error = await failure(getJson(hub, endpoint));
    expect(error).toBeInstanceOf(Unreachable);
    expect(error.line).toBe(`cannot reach ${new URL(endpoint).host} (ECONNREFUSED)`);
    expect(waits).toEqual([]);
  });

  it('is not one when it answers something other than JSON', async () => {
    const { origin } = await serve((_request, response) => response.end('<html>log in</html>'));
    expect((await failure(getJson(patient(origin).hub, origin))).line).toContain('is not JSON; check HF_ENDPOINT');
  });
});
