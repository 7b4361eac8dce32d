/** The linear layers of a block, all of which can be adapted; `lm_head` is not among them. */
export const TARGETS = ['q', 'k', 'v', 'attentionOut', 'gate', 'up', 'down'] as const;
export type Target = (typeof TARGETS)[number];
