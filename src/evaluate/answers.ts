import type { LanguageModel } from '../pretrained';
import { generateUntil, type GenerationRequest } from './generation';
import { loglikelihood, type BatchOptions, type LogLikelihood } from './loglikelihood';
import { loglikelihoodRolling } from './perplexity';
import { encodePair } from './prompts';

/** What a model answers, text in and numbers or text out, by the names of lm-evaluation-harness. */
export interface Answers {
  /** log p(continuation | context) of each pair, and whether it is the model's first choice. */
  loglikelihood(requests: readonly { context: string; continuation: string }[]): LogLikelihood[];
  /** log p of whole texts. */
  loglikelihood_rolling(texts: readonly string[]): number[];
  /** Greedy continuations. */
  generate_until(requests: readonly GenerationRequest[]): string[];
}

/** Questions to a model in words, rather than in tokens. */
export function answersOf(model: LanguageModel, options: BatchOptions = {}): Answers {
  return {
    loglikelihood: (requests) =>
      loglikelihood(
        model,
        requests.map(({ context, continuation }) => encodePair(model.tokenizer, context, continuation)),
        options,
      ),
    loglikelihood_rolling: (texts) => loglikelihoodRolling(model, texts, options).map(({ logProb }) => logProb),
    generate_until: (requests) => generateUntil(model, requests, options).map(({ text }) => text),
  };
}
