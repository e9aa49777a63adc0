#include "proto/state_name.h"

namespace longhaul::proto {

std::string_view StateName(JobState state) {
  switch (state) {
    case QUEUED:
      return "queued";
    case STARTING:
      return "starting";
    case RUNNING:
      return "running";
    case RECOVERING:
      return "recovering";
    case STOPPING:
      return "stopping";
    case SUCCEEDED:
      return "succeeded";
    case FAILED:
      return "failed";
    case STOPPED:
      return "stopped";
    case LEAVING:
      return "leaving";
    default:
      return "preparing";
  }
}

}  // namespace longhaul::proto
