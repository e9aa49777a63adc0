#include "trainer/job_door.h"

namespace longhaul::trainer {

Result<std::unique_ptr<JobDoor>> OpenAgentDoor() {
  return Unimplemented("this trainer was built without the worker's door");
}

}  // namespace longhaul::trainer
