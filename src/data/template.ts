import { UsageError } from '../base/errors';
import { unknownName } from '../base/pick';
import { jinja } from './huggingface';

/** A text made of a row's fields, by a Jinja template. */
export interface RowTemplate {
  /** @throws UsageError that names the template and the field, for one that the row does not have */
  render: (fields: Readonly<Record<string, unknown>>) => string;
}

/**
 * Compiles a Jinja template. Jinja renders a misspelt field as nothing; here it is an error.
 * @param name what errors call it
 * @throws UsageError when it does not parse
 */
export function compileTemplate(name: string, text: string): RowTemplate {
  // Jinja drops a line break at the end.
  const kept = text.endsWith('\n') ? `${text}\n` : text;
  const template = attempt(`${name} does not parse`, () => new jinja.Template(kept));
  const wanted = variables(template.parsed);
  return {
    render: (fields) => {
      const absent = wanted.find((variable) => !(variable in fields));
      if (absent !== undefined) throw unknownName(`field in ${name}`, absent, Object.keys(fields));
      return attempt(`${name} fails`, () => template.render({ ...fields }));
    },
  };
}

function attempt<T>(what: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw new UsageError(`${what}: ${(error as Error).message.replace(/\s*\n\s*/g, ' ')}`, { cause: error });
  }
}

interface Node {
  type: string;
  [part: string]: unknown;
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as Node).type === 'string';

const BUILT_IN = ['loop', 'range', 'namespace', 'true', 'false', 'none', 'True', 'False', 'None'];

/** The names that a template takes from outside. */
function variables(program: unknown): string[] {
  const used = new Set<string>();
  const own = new Set(BUILT_IN);
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) value.forEach(visit);
    if (value instanceof Map) [...value].flat().forEach(visit);
    if (!isNode(value)) return;
    if (value.type === 'Identifier') used.add(value['value'] as string);
    for (const [part, inner] of Object.entries(value)) {
      // Names that are not variables: of filters and tests, after a dot, and before an equals sign.
      const isName = isNode(inner) && inner.type === 'Identifier';
      const named = (part === 'filter' || part === 'test') && /^(Filter|Test)/.test(value.type);
      if (named && isNode(inner) && inner.type === 'CallExpression') visit(inner['args']);
      else if (part === 'operator' || ((named || part === 'key') && isName)) continue;
      else if (part === 'property' && value['computed'] !== true) continue;
      else if (part === 'loopvar' || (part === 'assignee' && isName)) names(inner).forEach((name) => own.add(name));
      else visit(inner);
    }
  };
  const names = (value: unknown): string[] => {
    if (!isNode(value)) return [];
    if (value.type === 'Identifier') return [value['value'] as string];
    return (value['value'] as unknown[] | undefined)?.flatMap(names) ?? [];
  };
  visit(program);
  return [...used].filter((name) => !own.has(name));
}
