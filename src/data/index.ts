export { Tokenizer, type EncodeOptions, type TokenizerSource } from './tokenizer';
export { tokenizerFromFolder, tokenizerFromJson } from './tokenizer-json';
export { BYTE_TOKENS, byteTokenizer } from './byte-tokenizer';
export { tokenizerFromGguf } from './tokenizer-gguf';
export { renderChat, type ChatMessage, type ChatOptions } from './chat';
export {
  docHash,
  openQuestionsOf,
  questionsOf,
  readOpenQuestions,
  readQuestions,
  type ChoiceQuestion,
  type OpenQuestion,
  type Questions,
  type ReadOptions,
} from './questions';
export {
  alpacaPrompt,
  letterPrompt,
  LETTERS,
  letterTokens,
  questionPrompt,
  withExamples,
  withLead,
  type Instruction,
} from './prompts';
export { benchmarksOf, fetchTask, type FetchedSplit, type FetchedTask, type FetchTaskOptions } from './fetch-task';
export { compileTemplate, type RowTemplate } from './template';
export { syntheticQuestions } from './synthetic';
export { MCQA, mcqaMixture, type Mixture } from './mixture';
export { dedupe, firstOf, normaliseQuestion, splitByFraction, splitByTopic } from './splits';
export { lengthBuckets, type Batches } from './batches';
