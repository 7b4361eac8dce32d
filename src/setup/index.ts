import { engineStep } from './engine';
import { kernelStep } from './kernel';
import { modelStep } from './model';
import { pythonStep } from './python';
import { runSteps, type Lock } from './steps';

export { diagnose, type Diagnosis } from './doctor';

/**
 * Makes this machine ready: JupyterLab and TensorFlow, the engine, the kernel, the model; what is done is skipped.
 * Called by bootstrap.cjs, which holds the lock.
 * @throws CalmError with cause and remedy
 */
export async function setUp(lock: Lock): Promise<void> {
  await runSteps([pythonStep, engineStep, kernelStep, modelStep], lock);
}
