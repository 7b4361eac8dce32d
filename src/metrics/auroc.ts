import { checkPairs } from './check';

/**
 * The probability that a right answer has more confidence than a wrong one, ties counting 1/2 (the area under the
 * ROC curve, as the Mann-Whitney statistic). Null when all answers are right, or all wrong.
 * @param confidence n confidences in [0, 1]
 * @param correct n outcomes, 0 or 1
 */
export function auroc(confidence: ArrayLike<number>, correct: ArrayLike<number>): number | null {
  checkPairs(confidence, correct);
  const order = Array.from({ length: confidence.length }, (_, i) => i).sort((a, b) => confidence[a]! - confidence[b]!);
  let wrong = 0;
  let right = 0;
  let wins = 0;
  for (let from = 0, to = 0; from < order.length; from = to) {
    let tiedRight = 0;
    while (to < order.length && confidence[order[to]!] === confidence[order[from]!])
      tiedRight += correct[order[to++]!]!;
    const tiedWrong = to - from - tiedRight;
    wins += tiedRight * (wrong + tiedWrong / 2);
    right += tiedRight;
    wrong += tiedWrong;
  }
  return right === 0 || wrong === 0 ? null : wins / (right * wrong);
}
