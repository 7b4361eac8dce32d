import * as path from 'node:path';
import { readJson } from '../../src/base/files';
import {
  configFromGguf,
  configFromHuggingFace,
  GGUF_NAMES,
  HUGGING_FACE_NAMES,
  loadParameters,
  openCheckpoint,
  openGguf,
  type Transformer,
} from '../../src/model';

/** A model's configuration and weights from a folder or `.gguf` file; without its words. */
export function loadWeights(where: string): Transformer {
  if (where.endsWith('.gguf')) {
    const gguf = openGguf(where);
    const config = configFromGguf(gguf.metadata, where, !gguf.tensors.has(GGUF_NAMES.unembedding));
    const parameters = loadParameters(gguf, config, GGUF_NAMES);
    gguf.close();
    return { config, parameters };
  }
  const configFile = path.join(where, 'config.json');
  const config = configFromHuggingFace(readJson(configFile) as Record<string, unknown>, configFile);
  const source = openCheckpoint(where);
  const parameters = loadParameters(source, config, HUGGING_FACE_NAMES);
  source.close();
  return { config, parameters };
}
