import { UsageError } from '../../base/errors';
import { checkThreshold } from './correctness';
import { normaliseAnswer } from './normalise';
import { isEmptyAnswer, isRefusal } from './refusal';
import { DEFAULT_F1, f1OfTokens, tokensOf } from './token-f1';

/** A choice of when two answers to a question mean the same. */
export interface Equivalence {
  /** With its settings, such as `token-f1@0.6`. */
  name: string;
  /**
   * Which of the answers mean the same, each against each: symmetric, true on the diagonal, and alike for equal answers.
   *
   * Whatever the choice, answers with the same normalised form are the same; refusals are the same among themselves and as
   * no answer, and so are empty answers, for silence (a cut, a fault) says less than "I don't know".
   */
  matrix(question: string, answers: readonly string[]): boolean[][] | Promise<boolean[][]>;
}

/** An equivalence that needs no model. */
export interface TextEquivalence extends Equivalence {
  matrix(question: string, answers: readonly string[]): boolean[][];
}

/** Answers that are compared: one text for each normalised form that is neither empty nor a refusal. */
interface Forms {
  /** Normalised, in ascending order of code units. */
  normalised: string[];
  /** An answer with each form: the shortest, and the first by code units of those, so that the order of samples is nothing. */
  texts: string[];
  /** For each answer the index of its form, or -1 for a refusal and -2 for an empty answer. */
  formOf: number[];
}

function formsOf(answers: readonly string[]): Forms {
  const known = new Map<string, string>();
  const texts = new Map<string, string>();
  const keys = answers.map((answer) => {
    let key = known.get(answer);
    if (key === undefined) {
      // A marker cannot be a normalised form, which has no line break.
      key = isEmptyAnswer(answer) ? '\n-2' : isRefusal(answer) ? '\n-1' : normaliseAnswer(answer);
      known.set(answer, key);
      const text = texts.get(key);
      if (text === undefined || answer.length < text.length || (answer.length === text.length && answer < text)) {
        texts.set(key, answer);
      }
    }
    return key;
  });
  const normalised = [...texts.keys()].filter((key) => !key.startsWith('\n')).sort();
  const index = new Map(normalised.map((key, i) => [key, i]));
  return {
    normalised,
    texts: normalised.map((key) => texts.get(key)!),
    formOf: keys.map((key) => index.get(key) ?? Number(key)),
  };
}

/** The matrix of answers, given which of two different forms are the same. */
function spread({ formOf }: Forms, same: (a: number, b: number) => boolean): boolean[][] {
  return formOf.map((a) => formOf.map((b) => a === b || (a >= 0 && b >= 0 && same(Math.min(a, b), Math.max(a, b)))));
}

/** Same normalised form, see `normaliseAnswer`. */
export const normalised: TextEquivalence = {
  name: 'normalised',
  matrix: (_question, answers) => spread(formsOf(answers), () => false),
};

/**
 * Token F1 at or above a threshold, see `tokenF1Score`. Not transitive. With its default threshold the best of the choices
 * without a model by F1 on `datasets/semantic-pairs`, at the price of merging what differs in one word of three.
 * @throws UsageError for a threshold outside (0, 1]
 */
export function tokenF1({ threshold = DEFAULT_F1 }: { threshold?: number } = {}): TextEquivalence {
  checkThreshold(threshold);
  return {
    name: `token-f1@${threshold}`,
    matrix: (_question, answers) => {
      const forms = formsOf(answers);
      const tokens = forms.normalised.map(tokensOf);
      const same = tokens.map((a) => tokens.map((b) => f1OfTokens(a, b) >= threshold));
      return spread(forms, (a, b) => same[a]![b]!);
    },
  };
}

/** How a question and an answer to it become one text for a model. */
export type Phrase = (question: string, answer: string) => string;

export interface EmbeddingOptions {
  /** A unit vector (Euclidean norm 1) for each text, all of one length. */
  embed: (texts: string[]) => Float32Array[] | Promise<Float32Array[]>;
  /** The least cosine of two answers that mean the same, -1 to 1. */
  threshold: number;
  /** The answer alone where not given. */
  phrase?: Phrase;
  /** The model, for the name. */
  model?: string;
}

/**
 * Cosine similarity of sentence embeddings at or above a threshold. Not transitive. The model is asked once a question, for
 * the texts that differ.
 * @throws UsageError for a threshold that is not a cosine; `matrix` throws it when the vectors are not one a text, of one
 *   length and of norm 1 (within 1e-3)
 */
export function embedding({ embed, threshold, phrase = (_, answer) => answer, model }: EmbeddingOptions): Equivalence {
  if (!(threshold >= -1 && threshold <= 1)) throw new UsageError(`the threshold ${threshold} is not a cosine`);
  return {
    name: `embedding@${threshold}${model === undefined ? '' : ` (${model})`}`,
    matrix: async (question, answers) => {
      const forms = formsOf(answers);
      if (forms.texts.length < 2) return spread(forms, () => false);
      const vectors = await embed(forms.texts.map((text) => phrase(question, text)));
      if (vectors.length !== forms.texts.length) {
        throw new UsageError(`${vectors.length} vectors for ${forms.texts.length} texts`);
      }
      for (const vector of vectors) {
        if (vector.length !== vectors[0]!.length || !(Math.abs(dot(vector, vector) - 1) < 2e-3)) {
          throw new UsageError('the embeddings are not unit vectors of one length');
        }
      }
      return spread(forms, (a, b) => dot(vectors[a]!, vectors[b]!) >= threshold);
    },
  };
}

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

/** Whether one text follows from another is asked of. */
export interface EntailmentPair {
  premise: string;
  hypothesis: string;
}

export interface EntailmentOptions {
  /** The probability, 0 to 1, that each premise entails its hypothesis. */
  entails: (pairs: EntailmentPair[]) => ArrayLike<number> | Promise<ArrayLike<number>>;
  /** The least probability, in both directions; 0.5 where not given. */
  threshold?: number;
  /** The question and the answer with a space between where not given, as in Kuhn et al. 2023. */
  phrase?: Phrase;
  /** The model, for the name. */
  model?: string;
}

/**
 * Bidirectional entailment (Kuhn et al. 2023, "Semantic uncertainty"): each answer, after its question, entails the other.
 * Not transitive. The model is asked once a question, for all ordered pairs of texts that differ.
 * @throws UsageError for a threshold outside (0, 1]; `matrix` throws it when there is not one probability a pair
 */
export function entailment({
  entails,
  threshold = 0.5,
  phrase = (question, answer) => `${question} ${answer}`,
  model,
}: EntailmentOptions): Equivalence {
  checkThreshold(threshold);
  return {
    name: `entailment@${threshold}${model === undefined ? '' : ` (${model})`}`,
    matrix: async (question, answers) => {
      const forms = formsOf(answers);
      const texts = forms.texts.map((text) => phrase(question, text));
      const n = texts.length;
      if (n < 2) return spread(forms, () => false);
      const ordered = texts.flatMap((premise, a) =>
        texts.flatMap((hypothesis, b) => (a === b ? [] : [{ premise, hypothesis }])),
      );
      const found = await entails(ordered);
      const probabilities = Array.from(found);
      if (probabilities.length !== ordered.length || !probabilities.every((p) => p >= 0 && p <= 1)) {
        throw new UsageError(
          `${probabilities.length} numbers are not a probability for each of ${ordered.length} pairs`,
        );
      }
      // Row a has n - 1 pairs, its own text left out.
      const entailed = (a: number, b: number) => probabilities[a * (n - 1) + (b > a ? b - 1 : b)]! >= threshold;
      return spread(forms, (a, b) => entailed(a, b) && entailed(b, a));
    },
  };
}
