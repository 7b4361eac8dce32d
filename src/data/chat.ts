import { z } from 'zod';
import { CalmError } from '../base/errors';
import { jinja } from './huggingface';

/** One turn of a conversation; fields a template may want besides (`name`, `tool_calls`) are passed on. */
export interface ChatMessage {
  role: string;
  content: string;
  [field: string]: unknown;
}

export interface ChatOptions {
  /** Ends with the opening of the assistant's turn. */
  addGenerationPrompt?: boolean;
  /** The text of BOS and EOS, for templates that write them. */
  bosToken?: string;
  eosToken?: string;
  /** JSON schemas of functions. */
  tools?: readonly object[];
}

const conversation = z.array(z.looseObject({ role: z.string().min(1), content: z.string() })).min(1);

const templates = new Map<string, InstanceType<typeof jinja.Template>>();

/**
 * The text of a conversation by the model's own chat template, with the variables and settings of transformers
 * (`trim_blocks`, `lstrip_blocks`, `raise_exception`, `strftime_now`). Special tokens stand in it as their markers, so
 * it is encoded with them recognised.
 * @throws CalmError in one line when the messages, the template, or the template with these messages are at fault
 */
export function renderChat(template: string, messages: readonly ChatMessage[], options: ChatOptions = {}): string {
  const checked = conversation.safeParse(messages);
  if (!checked.success) {
    const { path, message } = checked.error.issues[0] ?? { path: [], message: 'not understood' };
    throw new CalmError(`chat messages: ${path.length > 0 ? path.join('.') : 'the list'}: ${message}`, {
      remedy: 'expected [{"role": "user", "content": "…"}, …]',
    });
  }
  const compiled = templates.get(template) ?? failing('does not parse', () => new jinja.Template(template));
  templates.set(template, compiled);
  const { addGenerationPrompt = false, bosToken = '', eosToken = '', tools = null } = options;
  return failing('fails on these messages', () =>
    compiled.render({
      messages: checked.data,
      add_generation_prompt: addGenerationPrompt,
      bos_token: bosToken,
      eos_token: eosToken,
      tools,
      documents: null,
    }),
  );
}

function failing<T>(what: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    const why = (error as Error).message.replace(/\s*\n\s*/g, ' ');
    throw new CalmError(`the chat template ${what}: ${why}`, { cause: error });
  }
}
