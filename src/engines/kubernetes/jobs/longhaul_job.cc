#include "engines/kubernetes/jobs/longhaul_job.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace longhaul::engines::kubernetes {
namespace {

constexpr int64_t kMostWorkers = 100'000;
constexpr int64_t kMostDevices = 1'024;

Status Wrong(std::string_view field, std::string_view want) {
  return InvalidArgument(std::string(field) + ": expected " + std::string(want));
}

// Reads the members of one object and keeps the first mistake.
class Reader {
 public:
  Reader(const JobJson& object, std::string path) : object_(object), path_(std::move(path)) {
    if (!object.is_null() && !object.is_object()) Fail("", "an object");
  }

  const JobJson& Member(const char* name) const {
    static const JobJson kNone;
    if (!object_.is_object()) return kNone;
    const auto found = object_.find(name);
    return found == object_.end() ? kNone : *found;
  }
  std::string Text(const char* name) {
    const JobJson& value = Member(name);
    if (value.is_null()) return "";
    if (!value.is_string()) return Fail(name, "a text"), "";
    return value.get<std::string>();
  }
  bool Truth(const char* name) {
    const JobJson& value = Member(name);
    if (value.is_null()) return false;
    if (!value.is_boolean()) return Fail(name, "true or false"), false;
    return value.get<bool>();
  }
  int64_t Number(const char* name, int64_t otherwise, int64_t least, int64_t most) {
    const JobJson& value = Member(name);
    if (value.is_null()) return otherwise;
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() ||
                       value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) &&
                      value.get<int64_t>() >= least && value.get<int64_t>() <= most;
    if (fits) return value.get<int64_t>();
    Fail(name, "a number from " + std::to_string(least) + " to " + std::to_string(most));
    return otherwise;
  }
  JobJson Object(const char* name) {
    const JobJson& value = Member(name);
    if (!value.is_null() && !value.is_object()) return Fail(name, "an object"), JobJson();
    return value;
  }
  std::vector<std::string> Texts(const char* name) {
    std::vector<std::string> texts;
    const JobJson& value = Member(name);
    if (value.is_null()) return texts;
    if (!value.is_array()) return Fail(name, "a list of texts"), texts;
    for (const JobJson& each : value) {
      if (!each.is_string()) return Fail(name, "a list of texts"), texts;
      texts.push_back(each.get<std::string>());
    }
    return texts;
  }
  const Status& status() const { return status_; }

 private:
  void Fail(std::string_view name, std::string_view want) {
    if (!status_.ok()) return;
    status_ = Wrong(name.empty() ? path_ : path_ + "." + std::string(name), want);
  }

  const JobJson& object_;
  const std::string path_;
  Status status_;
};

Status ReadMeta(const JobJson& meta, LonghaulJob& job) {
  Reader reader(meta, "metadata");
  job.namespace_name = reader.Text("namespace");
  job.name = reader.Text("name");
  job.uid = reader.Text("uid");
  job.version = reader.Text("resourceVersion");
  job.generation = reader.Number("generation", 0, 0, INT64_MAX);
  job.being_deleted = !reader.Text("deletionTimestamp").empty();
  job.finalizers = reader.Texts("finalizers");
  Reader labels(reader.Member("labels"), "metadata.labels");
  job.local_queue = labels.Text(kQueueLabel.data());
  job.queue_priority = labels.Text(kQueuePriorityLabel.data());
  RETURN_IF_ERROR(labels.status());
  if (job.name.empty() || job.uid.empty()) return Wrong("metadata", "a name and a uid");
  return reader.status();
}

Status ReadWorkers(const JobJson& workers, LonghaulJob& job) {
  Reader reader(workers, "spec.workers");
  const int64_t desired = reader.Number("desired", 0, 1, kMostWorkers);
  if (desired == 0) return Wrong("spec.workers.desired", "a number from 1 to 100000");
  const int64_t minimum = reader.Number("min", desired, 1, desired);
  const int64_t maximum = reader.Number("max", desired, desired, kMostWorkers);
  const int64_t step = reader.Number("step", 1, 1, kMostWorkers);
  RETURN_IF_ERROR(reader.status());
  if (desired % step != 0 || minimum % step != 0 || maximum % step != 0) {
    return Wrong("spec.workers.step", "a divisor of min, desired and max");
  }
  job.step = static_cast<uint32_t>(step);
  job.desired = static_cast<uint32_t>(desired);
  job.minimum = static_cast<uint32_t>(minimum);
  job.maximum = static_cast<uint32_t>(maximum);
  return {};
}

Status ReadSpec(const JobJson& spec, LonghaulJob& job) {
  Reader reader(spec, "spec");
  job.queue = reader.Text("queue");
  job.suspend = reader.Truth("suspend");
  job.managed_by = reader.Text("managedBy");
  job.run_directory = reader.Text("runDirectory");
  job.job = reader.Object("job");
  job.pod_template = reader.Object("template");
  RETURN_IF_ERROR(reader.status());
  if (job.job.is_null()) return Wrong("spec.job", "an object");
  RETURN_IF_ERROR(ReadWorkers(reader.Member("workers"), job));
  Reader devices(reader.Member("devices"), "spec.devices");
  job.device_resource = devices.Text("resource");
  job.devices_per_worker = static_cast<uint32_t>(devices.Number("perWorker", 0, 1, kMostDevices));
  RETURN_IF_ERROR(devices.status());
  if (job.device_resource.empty() != (job.devices_per_worker == 0)) {
    return Wrong("spec.devices", "resource and perWorker, or neither");
  }
  return {};
}

// Sets a key of the job file, or returns the text of the contradiction.
Status SetNumber(JobJson& resources, const char* key, uint32_t value, const char* field) {
  const auto found = resources.find(key);
  if (found == resources.end()) {
    resources[key] = value;
    return {};
  }
  if (*found == value) return {};
  return InvalidArgument("spec.job.resources." + std::string(key) + " is " + found->dump() +
                         ", and " + field + " is " + std::to_string(value) +
                         ": leave the first one out");
}

const JobJson* ResourcesOf(const LonghaulJob& job) {
  const auto found = job.job.find("resources");
  return found == job.job.end() ? nullptr : &*found;
}

}  // namespace

bool LonghaulJob::HasFinalizer() const {
  return std::find(finalizers.begin(), finalizers.end(), kJobFinalizer) != finalizers.end();
}

Result<LonghaulJob> ReadLonghaulJob(const JobJson& object) {
  LonghaulJob job;
  Reader reader(object, "the object");
  RETURN_IF_ERROR(ReadMeta(reader.Member("metadata"), job));
  RETURN_IF_ERROR(ReadSpec(reader.Member("spec"), job));
  job.status = reader.Object("status");
  RETURN_IF_ERROR(reader.status());
  return job;
}

uint32_t SlotsOf(const LonghaulJob& job) {
  const JobJson* resources = ResourcesOf(job);
  if (resources != nullptr && resources->is_object()) {
    const auto found = resources->find("processes_per_node");
    const bool stated = found != resources->end() && found->is_number_unsigned() &&
                        found->get<uint64_t>() >= 1 && found->get<uint64_t>() <= kMostDevices;
    if (stated) return found->get<uint32_t>();
  }
  return std::max(1u, job.devices_per_worker);
}

Result<std::string> JobFileOf(const LonghaulJob& job) {
  JobJson file = job.job;
  if (!file.contains("name")) file["name"] = job.name;
  JobJson& resources = file["resources"];
  if (resources.is_null()) resources = JobJson::object();
  if (!resources.is_object()) return Wrong("spec.job.resources", "an object");
  RETURN_IF_ERROR(SetNumber(resources, "nodes", job.desired, "spec.workers.desired"));
  if (job.minimum != job.desired) {
    RETURN_IF_ERROR(SetNumber(resources, "minimum_nodes", job.minimum, "spec.workers.min"));
  }
  if (job.maximum != job.desired) {
    RETURN_IF_ERROR(SetNumber(resources, "maximum_nodes", job.maximum, "spec.workers.max"));
  }
  if (!resources.contains("processes_per_node")) resources["processes_per_node"] = SlotsOf(job);
  return file.dump(-1, ' ', false, JobJson::error_handler_t::replace);
}

}  // namespace longhaul::engines::kubernetes
