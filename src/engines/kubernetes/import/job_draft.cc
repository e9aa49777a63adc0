#include "engines/kubernetes/import/job_draft.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "engines/kubernetes/import/job_checks.h"
#include "engines/kubernetes/import/job_metadata.h"

namespace longhaul::engines::kubernetes {
namespace {

struct WorkerBounds {
  int64_t minimum = 1;
  int64_t desired = 1;
  int64_t maximum = 1;
  int64_t step = 1;
};

class JobMaker {
 public:
  JobMaker(const JobDraft& draft, Translation& translation)
      : draft_(draft), translation_(translation) {}

  JobJson Make() {
    JobJson metadata =
        TranslateJobMetadata(draft_.metadata, draft_.labels, draft_.annotations, translation_);
    template_ = TranslatePodTemplate(draft_.pod_template, translation_);
    if (!translation_.ok()) return {};
    SetPriority();
    JobJson spec = JobJson::object();
    if (!draft_.queue.empty()) spec["queue"] = draft_.queue;
    if (draft_.suspend) spec["suspend"] = true;
    spec["workers"] = Workers();
    if (template_.devices > 0) {
      spec["devices"] = {{"resource", template_.device_resource}, {"perWorker", template_.devices}};
    }
    spec["job"] = JobFile();
    spec["template"] = template_.pod_template;
    JobJson job = {{"apiVersion", "longhaul.dev/v1"},
                   {"kind", "LonghaulJob"},
                   {"metadata", std::move(metadata)},
                   {"spec", std::move(spec)}};
    if (!translation_.ok()) return {};
    const Status checked = CheckLonghaulJob(job);
    if (checked.ok()) return job;
    translation_.Fail("", "the LonghaulJob that results is refused: " + checked.message());
    return {};
  }

 private:
  const LauncherOptions& options() const { return template_.command.options; }

  void SetPriority() {
    if (draft_.priority_class.empty()) return;
    JobJson& spec = template_.pod_template["spec"];
    if (spec.contains("priorityClassName")) {
      return translation_.Dropped(draft_.priority_path, "the pod template has a priorityClassName");
    }
    spec["priorityClassName"] = draft_.priority_class;
    translation_.Changed(draft_.priority_path, "is the priorityClassName of the pods");
  }

  JobJson Workers() {
    WorkerBounds bounds{draft_.desired.value, draft_.desired.value, draft_.desired.value,
                        options().node_unit.value_or(1)};
    if (draft_.minimum) bounds.minimum = *draft_.minimum;
    if (draft_.maximum) bounds.maximum = *draft_.maximum;
    TakeLauncherBounds(bounds);
    const int64_t within = std::clamp(bounds.desired, bounds.minimum, bounds.maximum);
    if (within != bounds.desired) {
      translation_.Changed(
          draft_.desired.path,
          std::to_string(bounds.desired) + " is outside of the bounds: " + std::to_string(within));
    }
    bounds.desired = within;
    RoundToStep(bounds);
    JobJson workers = JobJson::object();
    if (bounds.minimum != bounds.desired) workers["min"] = bounds.minimum;
    workers["desired"] = bounds.desired;
    if (bounds.maximum != bounds.desired) workers["max"] = bounds.maximum;
    if (bounds.step != 1) workers["step"] = bounds.step;
    return workers;
  }

  // --nnodes comes before what the manifest says.
  void TakeLauncherBounds(WorkerBounds& bounds) {
    if (options().minimum_nodes && !options().maximum_nodes) {
      bounds.minimum = *options().minimum_nodes;
    }
    if (!options().maximum_nodes) return;
    if (*options().minimum_nodes != *options().maximum_nodes) {
      bounds.minimum = *options().minimum_nodes;
      bounds.maximum = *options().maximum_nodes;
      return;
    }
    const bool inside =
        bounds.minimum <= *options().maximum_nodes && *options().maximum_nodes <= bounds.maximum;
    if (inside && *options().maximum_nodes == bounds.desired) return;
    translation_.Changed(draft_.desired.path,
                         "the launcher's --nnodes is " + std::to_string(*options().maximum_nodes) +
                             ", and there are " + std::to_string(bounds.desired) +
                             " pods, which is taken");
  }

  void RoundToStep(WorkerBounds& bounds) {
    const int64_t step = bounds.step;
    if (step == 1) return;
    if (bounds.desired < step) {
      return translation_.Fail(draft_.desired.path,
                               "is " + std::to_string(bounds.desired) + ", and node_unit is " +
                                   std::to_string(step) + ": expected a multiple of it");
    }
    const WorkerBounds before = bounds;
    bounds.desired -= bounds.desired % step;
    bounds.maximum -= bounds.maximum % step;
    bounds.minimum = std::min(bounds.desired, (bounds.minimum + step - 1) / step * step);
    if (before.desired == bounds.desired && before.minimum == bounds.minimum &&
        before.maximum == bounds.maximum) {
      return;
    }
    translation_.Changed(draft_.desired.path,
                         "the numbers of pods are rounded to multiples of "
                         "node_unit, " +
                             std::to_string(step));
  }

  JobJson JobFile() {
    JobJson file = JobJson::object();
    file["command"] = Argv();
    if (!template_.working_directory.empty()) {
      file["working_directory"] = template_.working_directory;
    }
    if (const std::optional<int64_t> restarts = MaxRestarts()) file["max_restarts"] = *restarts;
    const int64_t processes = Processes();
    if (processes != std::max<int64_t>(1, template_.devices)) {
      file["resources"] = {{"processes_per_node", processes}};
    }
    return file;
  }

  // A job file has no empty words, but a shell does.
  JobJson Argv() {
    const std::vector<std::string>& argv = template_.command.argv;
    if (std::ranges::none_of(argv, &std::string::empty)) return argv;
    std::vector<CommandWord> words;
    for (const std::string& word : argv) words.push_back({word, true});
    return JobJson::array({"/bin/sh", "-c", "exec " + ShellSource(words)});
  }

  std::optional<int64_t> MaxRestarts() {
    const std::optional<StatedRestarts>& stated = draft_.max_restarts;
    const std::optional<int64_t> given = options().max_restarts;
    if (!given) {
      if (stated && !stated->change.empty()) translation_.Changed(stated->path, stated->change);
      return stated ? std::optional(stated->value) : std::nullopt;
    }
    if (stated && stated->counts_pods) {
      translation_.Dropped(stated->path, "the launcher's --max-restarts is max_restarts");
    } else if (stated) {
      translation_.NotNeeded(stated->path, "the launcher's --max-restarts comes first");
    }
    if (*given > kMostImportedRestarts) {
      translation_.Fail(draft_.pod_template.path, "--max-restarts is " + std::to_string(*given) +
                                                      ", expected at most 1,000,000");
    }
    return given;
  }

  int64_t Processes() {
    const bool stated = draft_.processes_stated;
    if (!template_.command.launched) {
      if (stated && draft_.processes != "1") {
        translation_.Dropped(draft_.processes_path,
                             "the command is not torchrun: it starts once in each pod, and PET_* "
                             "variables are not set. If it starts torchrun inside, make torchrun "
                             "the command of the container");
      }
      return 1;
    }
    if (!options().processes.empty() && stated) {
      translation_.NotNeeded(draft_.processes_path, "the launcher's --nproc-per-node comes first");
    }
    const bool own = options().processes.empty();
    const std::string& text = own ? draft_.processes : options().processes;
    const std::string path =
        own ? draft_.processes_path : draft_.pod_template.path + " --nproc-per-node";
    return text.empty() ? 1 : CountProcesses(text, path);
  }

  int64_t CountProcesses(const std::string& text, const std::string& path) {
    if (text == "auto" || text == "gpu" || text == "cpu") {
      if (text != "cpu" && template_.devices > 0) return template_.devices;
      if (text != "gpu" && draft_.auto_counts_cpus && template_.cpus > 0) {
        return std::min(template_.cpus, kMostImportedProcesses);
      }
      translation_.Changed(path, text +
                                     " is known only in the pod: 1 process; set "
                                     "spec.job.resources.processes_per_node");
      return 1;
    }
    const Result<int64_t> number = ParseInt64(text);
    if (number.ok() && *number >= 1 && *number <= kMostImportedProcesses) return *number;
    translation_.Fail(path, "is '" + Printable(text, 60) +
                                "', expected auto, gpu, cpu or a number from 1 to 1,024");
    return 1;
  }

  const JobDraft& draft_;
  Translation& translation_;
  WorkerTemplate template_;
};

}  // namespace

void TakeCommonFields(ObjectFields& object, JobDraft& draft) {
  object.Take("apiVersion");
  object.Take("kind");
  draft.metadata = object.TakeObject("metadata");
  object.NotNeeded("status", "it is the state of the other operator's job");
}

void SetBounds(std::optional<int64_t> minimum, std::optional<int64_t> maximum,
               const std::string& path, JobDraft& draft, Translation& translation) {
  if (!minimum && !maximum) return;
  draft.minimum = minimum ? minimum : maximum;
  draft.maximum = maximum ? maximum : minimum;
  if (*draft.minimum <= *draft.maximum) return;
  translation.Fail(path, "the minimum is " + std::to_string(*draft.minimum) +
                             ", expected at most the maximum, " + std::to_string(*draft.maximum));
}

void SetRestarts(StatedRestarts restarts, JobDraft& draft, Translation& translation) {
  if (draft.max_restarts) {
    translation.Dropped(draft.max_restarts->path, restarts.path + " is max_restarts");
  }
  draft.max_restarts = std::move(restarts);
}

JobJson MakeLonghaulJob(const JobDraft& draft, Translation& translation) {
  if (!translation.ok()) return {};
  return JobMaker(draft, translation).Make();
}

}  // namespace longhaul::engines::kubernetes
