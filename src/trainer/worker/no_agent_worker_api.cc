#include "trainer/worker/worker_api.h"

namespace longhaul::trainer {

Result<std::unique_ptr<WorkerApi>> OpenAgentWorkerApi() {
  return Unimplemented("this trainer was built without the worker API");
}

}  // namespace longhaul::trainer
