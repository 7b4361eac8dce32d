/** Breaks a title into lines of at most `width` characters, after spaces and after the `-`, `_` and `/` of model names. */
export function wrap(text: string, width: number): string[] {
  const pieces = text.split(/(?<=[\s\-_/])/).flatMap((piece) => piece.match(new RegExp(`.{1,${width}}`, 'gsu')) ?? []);
  const lines: string[] = [];
  let line = '';
  for (const piece of pieces) {
    if (line !== '' && (line + piece).trimEnd().length > width) {
      lines.push(line.trimEnd());
      line = '';
    }
    line += piece;
  }
  return [...lines, line.trimEnd()];
}
