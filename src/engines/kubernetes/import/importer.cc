#include "engines/kubernetes/import/importer.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "engines/kubernetes/import/elastic_job.h"
#include "engines/kubernetes/import/pytorch_job.h"
#include "engines/kubernetes/import/train_job.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMostErrors = 10;
constexpr const char* kTrainerVersion = "trainer.kubeflow.org/v1alpha1";

struct KnownKind {
  std::string_view kind;
  std::string_view version;
};
constexpr auto kJobKinds =
    std::to_array<KnownKind>({{"PyTorchJob", "kubeflow.org/v1"},
                              {"TrainJob", kTrainerVersion},
                              {"ElasticJob", "elastic.iml.github.io/v1alpha1"}});

bool IsRuntime(const Manifest& manifest) {
  return (manifest.origin.kind == "ClusterTrainingRuntime" ||
          manifest.origin.kind == "TrainingRuntime") &&
         manifest.object.value("apiVersion", JobJson()) == kTrainerVersion;
}

std::string NamespaceIn(const ManifestOrigin& origin) {
  const size_t slash = origin.name.find('/');
  return slash == std::string::npos ? "" : origin.name.substr(0, slash);
}

std::string NameIn(const ManifestOrigin& origin) {
  return origin.name.substr(origin.name.find('/') + 1);
}

class Importer {
 public:
  explicit Importer(const std::vector<Manifest>& manifests) : manifests_(manifests) {}

  Result<ImportResult> Import() {
    for (const Manifest& manifest : manifests_) {
      if (IsRuntime(manifest)) continue;
      const auto* const known =
          std::ranges::find(kJobKinds, manifest.origin.kind, &KnownKind::kind);
      if (known == kJobKinds.end()) {
        Translation(manifest.origin, result_.report)
            .Dropped("", "it is no training job that Longhaul imports: apply it yourself");
      } else {
        ImportJob(manifest, *known);
      }
    }
    ReportUnusedRuntimes();
    if (!errors_.empty()) return InvalidArgument(Join(errors_, "\n"));
    if (result_.jobs.empty()) {
      return InvalidArgument(
          "no training job found, expected a TrainJob (trainer.kubeflow.org/v1alpha1), a "
          "PyTorchJob (kubeflow.org/v1) or an ElasticJob (elastic.iml.github.io/v1alpha1)");
    }
    return std::move(result_);
  }

 private:
  void AddError(const std::string& message) {
    if (errors_.size() < kMostErrors) errors_.push_back(message);
  }

  void ImportJob(const Manifest& manifest, const KnownKind& known) {
    Translation translation(manifest.origin, result_.report);
    const JobJson version = manifest.object.value("apiVersion", JobJson());
    if (version != known.version) {
      translation.Fail("apiVersion", "is " + ShowValue(version) + ", expected " +
                                         std::string(known.version) + " of a " +
                                         std::string(known.kind));
    }
    JobJson job;
    if (translation.ok()) job = Translate(manifest, translation);
    if (!translation.ok()) return AddError(translation.status().message());
    if (job.is_null()) return;  // its runtime has an error
    const std::string name =
        job["metadata"].value("namespace", "") + "/" + job["metadata"]["name"].get<std::string>();
    if (!names_.insert(name).second) {
      return AddError(ToString(manifest.origin) +
                      ": metadata.name: another job of the files has the same name: rename one");
    }
    result_.jobs.push_back(std::move(job));
  }

  JobJson Translate(const Manifest& manifest, Translation& translation) {
    if (manifest.origin.kind == "PyTorchJob") {
      return TranslatePyTorchJob(manifest.object, translation);
    }
    if (manifest.origin.kind == "ElasticJob") {
      return TranslateElasticJob(manifest.object, translation);
    }
    std::optional<TrainingRuntime> runtime;
    if (const Manifest* const found = FindRuntime(manifest)) {
      used_.insert(found);
      Translation of_runtime(found->origin, result_.report);
      runtime = ReadTrainingRuntime(found->object, of_runtime);
      if (!of_runtime.ok()) {
        AddError(of_runtime.status().message());
        return {};
      }
    }
    return TranslateTrainJob(manifest.object, runtime, translation);
  }

  const Manifest* FindRuntime(const Manifest& train_job) const {
    const RuntimeReference reference = RuntimeOf(train_job.object);
    for (const Manifest& manifest : manifests_) {
      if (!IsRuntime(manifest) || manifest.origin.kind != reference.kind) continue;
      if (NameIn(manifest.origin) != reference.name) continue;
      const bool everywhere = reference.kind == "ClusterTrainingRuntime";
      if (everywhere || NamespaceIn(manifest.origin) == NamespaceIn(train_job.origin)) {
        return &manifest;
      }
    }
    return nullptr;
  }

  void ReportUnusedRuntimes() {
    for (const Manifest& manifest : manifests_) {
      if (!IsRuntime(manifest) || used_.contains(&manifest)) continue;
      Translation(manifest.origin, result_.report)
          .NotNeeded("", "no TrainJob of the files names it");
    }
  }

  const std::vector<Manifest>& manifests_;
  ImportResult result_;
  std::vector<std::string> errors_;
  std::set<std::string> names_;
  std::set<const Manifest*> used_;
};

}  // namespace

Result<ImportResult> ImportJobs(const std::vector<Manifest>& manifests) {
  return Importer(manifests).Import();
}

}  // namespace longhaul::engines::kubernetes
