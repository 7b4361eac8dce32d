/** A token that is matched in the text as it stands, before anything else splits it. */
export interface AddedToken {
  id: number;
  content: string;
  special: boolean;
  /** Matched in the normalised text rather than in the raw one. */
  normalized: boolean;
  single_word: boolean;
  /** Takes the white space before (after) it. */
  lstrip: boolean;
  rstrip: boolean;
}

/** Text apart from added tokens, as a string, and added tokens, as their ids. */
export type Section = string | number;

/** Cuts a text at the added tokens in it: the leftmost match first, the longest at one place. */
export function addedTokenSplitter(tokens: readonly AddedToken[]): (text: string) => Section[] {
  const wanted = tokens.filter((token) => token.content !== '');
  if (wanted.length === 0) return (text) => (text === '' ? [] : [text]);
  const ids = new Map(wanted.map((token) => [token.content, token.id]));
  const longestFirst = [...wanted].sort((a, b) => b.content.length - a.content.length);
  const pattern = new RegExp(longestFirst.map(tokenPattern).join('|'), 'gu');

  return (text) => {
    const sections: Section[] = [];
    let end = 0;
    for (const match of text.matchAll(pattern)) {
      if (match.index > end) sections.push(text.slice(end, match.index));
      const taken = longestFirst.find((token) => match[0].includes(token.content)) as AddedToken; // with its white space
      sections.push(ids.get(match[0]) ?? taken.id);
      end = match.index + match[0].length;
    }
    if (end < text.length) sections.push(text.slice(end));
    return sections;
  };
}

/** A character of a word. */
const WORD = '[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]';

function tokenPattern({ content, single_word, lstrip, rstrip }: AddedToken): string {
  const literal = content.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
  const word = single_word ? `(?<!${WORD})${literal}(?!${WORD})` : literal;
  return `${lstrip ? '\\p{White_Space}*' : ''}${word}${rstrip ? '\\p{White_Space}*' : ''}`;
}
