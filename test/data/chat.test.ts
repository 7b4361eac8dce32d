import { describe, expect, test } from 'vitest';
import { CalmError } from '../../src/base/errors';
import { renderChat } from '../../src/data';

const user = [{ role: 'user', content: 'Hi' }];

function lineOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof CalmError) return error.line;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('renderChat', () => {
  test('variables, and blocks that leave no white space (trim_blocks, lstrip_blocks)', () => {
    const template = `{{ bos_token }}
{%- for m in messages %}
    {% if m.role == 'user' %}
[{{ m.content }}]
    {% endif %}
{% endfor %}
{% if add_generation_prompt %}>{% endif %}{{ eos_token }}`;
    const options = { bosToken: '<s>', eosToken: '</s>' };
    expect(renderChat(template, user, options)).toBe('<s>[Hi]\n</s>');
    expect(renderChat(template, user, { ...options, addGenerationPrompt: true })).toBe('<s>[Hi]\n></s>');
    expect(renderChat(template, user)).toBe('[Hi]\n');
  });

  test('tools are null unless given; further fields of a message are passed on; texts are not escaped', () => {
    expect(renderChat('{% if tools is not none %}{{ tools[0].name }}{% else %}none{% endif %}', user)).toBe('none');
    expect(renderChat('{% if tools %}{{ tools[0].name }}{% endif %}', user, { tools: [{ name: 'f' }] })).toBe('f');
    expect(renderChat('{{ messages[0].name }}', [{ role: 'user', content: '', name: 'Ann' }])).toBe('Ann');
    expect(renderChat('{{ messages[0].content }}', [{ role: 'user', content: '<b>&"{{x}}\u2028' }])).toBe(
      '<b>&"{{x}}\u2028',
    );
  });

  test('strftime_now gives the date', () => {
    expect(renderChat("{{ strftime_now('%Y') }}", user)).toBe(String(new Date().getFullYear()));
  });

  test.each([
    ['{% for m in messages %}', 'the chat template does not parse: '],
    [
      "{{ raise_exception('Roles must\nalternate') }}",
      'the chat template fails on these messages: Roles must alternate',
    ],
    ['{{ messages | nonsense }}', 'the chat template fails on these messages: Unknown'],
  ])('a template at fault: %s', (template, line) => {
    expect(lineOf(() => renderChat(template, user))).toMatch(line);
    expect(lineOf(() => renderChat(template, user))).not.toContain('\n');
  });

  test.each([
    [[], 'chat messages: the list: '],
    ['x', 'chat messages: the list: '],
    [[{ role: 'user' }], 'chat messages: 0.content: '],
    [[...user, { role: 'user', content: 3 }], 'chat messages: 1.content: '],
    [[{ role: '', content: '' }], 'chat messages: 0.role: '],
    [[{ content: 'x' }], 'chat messages: 0.role: '],
  ])('messages at fault: %j', (messages, line) => {
    expect(lineOf(() => renderChat('x', messages as never))).toMatch(line);
  });
});
