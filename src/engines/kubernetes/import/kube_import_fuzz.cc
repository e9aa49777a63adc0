// Any text as a file of manifests: what is translated is a LonghaulJob that the operator accepts,
// and is read back from its YAML as it was; refusals name the file.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "engines/kubernetes/import/importer.h"
#include "engines/kubernetes/import/job_checks.h"
#include "engines/kubernetes/import/manifest/manifest_reader.h"
#include "engines/kubernetes/import/manifest/manifest_writer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  using namespace longhaul::engines::kubernetes;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<std::vector<Manifest>> manifests = ReadManifests(text, "file.yaml");
  if (!manifests.ok()) {
    CHECK(manifests.status().message().starts_with("file.yaml:")) << manifests.status();
    return 0;
  }
  std::vector<JobJson> objects;
  for (const Manifest& manifest : *manifests) objects.push_back(manifest.object);
  const std::string yaml = ToYamlDocuments(objects);
  if (yaml.size() <= kMostManifestBytes) {
    const Result<std::vector<Manifest>> again = ReadManifests(yaml, "again.yaml");
    CHECK(again.ok()) << again.status() << "\n" << yaml;
    CHECK(again->size() == objects.size()) << yaml;
    for (size_t i = 0; i < objects.size(); ++i) CHECK((*again)[i].object == objects[i]) << yaml;
  }
  const Result<ImportResult> result = ImportJobs(*manifests);
  if (!result.ok()) {
    CHECK(result.status().code() == Code::kInvalidArgument) << result.status();
    return 0;
  }
  CHECK(!result->jobs.empty());
  for (const JobJson& job : result->jobs) CHECK(CheckLonghaulJob(job).ok()) << job.dump();
  for (const ImportEntry& entry : result->report.entries()) CHECK(!entry.reason.empty());
  CHECK(!result->report.ToJson().dump(-1, ' ', false, JobJson::error_handler_t::replace).empty());
  return 0;
}
