#include "engines/kubernetes/import/container_resources.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"
#include "engines/kubernetes/import/object_fields.h"
#include "engines/kubernetes/protocol/objects/quantity.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr int64_t kMostOfAPod = 1'024;

// The domains of vendors whose device plug-ins offer accelerators under their names.
constexpr auto kAcceleratorDomains = std::to_array<std::string_view>(
    {"amd.com", "gpu.intel.com", "habana.ai", "google.com", "aws.amazon.com", "huawei.com",
     "cambricon.com", "mthreads.com", "metax-tech.com", "iluvatar.ai"});

bool IsAccelerator(std::string_view resource) {
  const size_t slash = resource.find('/');
  if (slash == resource.npos) return false;
  const std::string_view domain = resource.substr(0, slash);
  const std::string_view name = resource.substr(slash + 1);
  // This vendor offers network cards, too.
  if (domain == "nvidia.com") return name.starts_with("gpu") || name.starts_with("mig-");
  return std::ranges::find(kAcceleratorDomains, domain) != kAcceleratorDomains.end();
}

// A quantity as a text or as a number.
std::optional<Quantity> ReadQuantity(const JobJson& value, const std::string& path,
                                     Translation& translation) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (value.is_string() || value.is_number()) {
    const Result<Quantity> quantity = Quantity::Parse(text);
    if (quantity.ok()) return *quantity;
  }
  translation.Fail(path, "is " + ShowValue(value) + ", expected a quantity such as 500m or 16Gi");
  return std::nullopt;
}

class ResourceTranslator {
 public:
  explicit ResourceTranslator(Translation& translation) : translation_(translation) {}

  // The accelerators of one of "limits" and "requests"; the rest is kept.
  void TakeAmounts(const JobJson& amounts, const std::string& path, const char* name) {
    if (amounts.is_null()) return;
    JobJson kept = JobJson::object();
    for (const auto& [resource, value] : amounts.items()) {
      const std::string place = path + "[" + resource + "]";
      const std::optional<Quantity> quantity = ReadQuantity(value, place, translation_);
      if (!quantity) return;
      if (resource == "cpu" && result_.cpus == 0) result_.cpus = quantity->RoundedUpUnits();
      if (IsAccelerator(resource) && TakeDevices(resource, *quantity, value, place)) continue;
      kept[resource] = value;
    }
    if (!kept.empty()) result_.rest[name] = std::move(kept);
  }

  ContainerResources result_;

 private:
  // Whether these are the devices of the job.
  bool TakeDevices(const std::string& resource, Quantity quantity, const JobJson& value,
                   const std::string& path) {
    if (quantity == Quantity()) return true;
    if (!result_.device_resource.empty() && result_.device_resource != resource) {
      translation_.Changed(path, "stays a resource of the pods: the job's devices are " +
                                     Printable(result_.device_resource));
      return false;
    }
    const int64_t count = quantity.RoundedUpUnits();
    if (!quantity.is_whole() || count < 1 || count > kMostOfAPod) {
      translation_.Fail(path,
                        "is " + ShowValue(value) + ", expected a whole number from 1 to 1,024");
    } else if (result_.devices != 0 && result_.devices != count) {
      translation_.Fail(path, "is " + ShowValue(value) + ", and the limit is " +
                                  std::to_string(result_.devices) + ": expected the same number");
    }
    result_.device_resource = resource;
    result_.devices = count;
    return true;
  }

  Translation& translation_;
};

}  // namespace

ContainerResources TranslateContainerResources(const JobJson& resources, const std::string& path,
                                               Translation& translation) {
  ObjectFields fields(resources, path, translation);
  ResourceTranslator translator(translation);
  for (const char* name : {"limits", "requests"}) {
    translator.TakeAmounts(fields.TakeObject(name), fields.PathOf(name), name);
  }
  const JobJson& claims = fields.Take("claims");
  if (!claims.is_null()) translator.result_.rest["claims"] = claims;
  fields.Finish();
  return std::move(translator.result_);
}

}  // namespace longhaul::engines::kubernetes
