import { request } from 'node:http';
import { describe, expect, it } from 'vitest';
import { failureText } from '../../cli/campaign-failure-text.js';
import { parseSchedule } from '../../scenarios/index.js';
import type { CampaignState } from '../queue/index.js';
import { middle } from '../testing/state.js';
import { type PageOptions, servePage } from './server.js';

const OPTIONS: PageOptions = { name: 'night', port: 0, textOf: failureText };

interface Answer {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
}

function get(url: string, options: { method?: string; headers?: Record<string, string> } = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    request(url, { agent: false, ...options }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }));
    })
      .on('error', reject)
      .end();
  });
}

describe('the page of a campaign', () => {
  it('shows how far it is, and hands out its failures', async () => {
    const state = middle();
    await using page = await servePage({ state: async () => state }, OPTIONS);
    const { status, text, headers } = await get(page.url);
    expect(status).toBe(200);
    expect(headers['content-security-policy']).toContain("default-src 'none'");
    expect(text).toContain('3 of 4 ranges');
    expect(text).toContain('2 machines, 12 346 schedules/s, about 1 h 1 min left');
    expect(text).toContain('Range 3 could not be made: out of &lt;memory&gt;');
    expect(text).toContain('&lt;b&gt;&amp;&quot;');
    expect(text).not.toContain('<b>&"');
    expect(JSON.parse((await get(`${page.url}state.json`)).text)).toEqual(state);
    const schedule = await get(`${page.url}failures/0.json`);
    expect(schedule.headers['content-disposition']).toMatch(/^attachment; filename="night-\d+\.json"$/);
    expect(parseSchedule(JSON.parse(schedule.text))).toEqual(state.part.failures[0]?.schedule);
    expect((await get(`${page.url}failures/0.txt`)).text).toMatch(/c\d/);
  });

  it('is for this machine alone, and has nothing else', async () => {
    const state = middle();
    await using page = await servePage({ state: async () => state }, OPTIONS);
    expect(await get(page.url, { headers: { Host: 'example.org' } })).toMatchObject({ status: 403 });
    expect(await get(page.url, { method: 'POST' })).toMatchObject({ status: 405 });
    for (const path of ['nothing', 'failures/99.json', 'failures/0.html', '../package.json']) {
      expect(await get(page.url + path)).toMatchObject({ status: 404 });
    }
  });

  it('says when the server of the queue is away', async () => {
    const state = async (): Promise<CampaignState> => {
      throw new Error('Connection is closed.');
    };
    await using page = await servePage({ state }, OPTIONS);
    expect(await get(page.url)).toMatchObject({ status: 503, text: 'Connection is closed.' });
  });
});
