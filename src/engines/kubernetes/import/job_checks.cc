#include "engines/kubernetes/import/job_checks.h"

#include <algorithm>
#include <string>

#include "base/text.h"
#include "engines/kubernetes/jobs/pod_templates.h"
#include "spec/job/job.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMostJobBytes = size_t{1} << 20;  // an object of the API has at most 1.5 MiB

bool IsWithin(std::string_view text, std::string_view inner, bool capitals) {
  const auto ends_well = [capitals](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (capitals && c >= 'A' && c <= 'Z');
  };
  if (text.empty() || !ends_well(text.front()) || !ends_well(text.back())) return false;
  return std::ranges::all_of(text,
                             [&](char c) { return ends_well(c) || inner.find(c) != inner.npos; });
}

// What the definition demands beside ReadLonghaulJob.
Status CheckSchema(const LonghaulJob& job, const JobJson& spec) {
  if (!job.queue.empty() && !IsDnsLabel(job.queue)) {
    return InvalidArgument("spec.queue: expected a DNS label");
  }
  if (!job.device_resource.empty() && !IsDeviceResource(job.device_resource)) {
    return InvalidArgument("spec.devices.resource: '" + Printable(job.device_resource) +
                           "' is no name of an extended resource");
  }
  if (job.job.empty() || job.job.size() > 100) {
    return InvalidArgument("spec.job: expected 1 to 100 keys");
  }
  const int64_t step = spec["workers"].value("step", int64_t{1});
  if (step < 1 || job.desired % step != 0 || job.minimum % step != 0 || job.maximum % step != 0) {
    return InvalidArgument("spec.workers.step: min, desired and max must be multiples of it");
  }
  return {};
}

}  // namespace

bool IsDnsLabel(std::string_view text) { return text.size() <= 63 && IsWithin(text, "-", false); }

bool IsDeviceResource(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != text.npos && text.size() <= 253 && IsWithin(text.substr(0, slash), "-.", false) &&
         IsWithin(text.substr(slash + 1), "-._", true);
}

Status CheckLonghaulJob(const JobJson& job) {
  const size_t bytes = job.dump(-1, ' ', false, JobJson::error_handler_t::replace).size();
  if (bytes > kMostJobBytes) {
    return InvalidArgument("it has " + WithThousands(static_cast<int64_t>(bytes)) +
                           " bytes, expected at most 1 MiB");
  }
  JobJson stored = job;
  stored["metadata"]["uid"] = "import";  // the API server gives one
  ASSIGN_OR_RETURN(const LonghaulJob read, ReadLonghaulJob(stored));
  RETURN_IF_ERROR(CheckSchema(read, job["spec"]));
  RETURN_IF_ERROR(CheckPodTemplate(read));
  ASSIGN_OR_RETURN(const std::string file, JobFileOf(read));
  return spec::ParseJob(file, "spec.job").status();
}

}  // namespace longhaul::engines::kubernetes
