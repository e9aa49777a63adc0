#include "engines/kubernetes/import/manifest/manifest_reader.h"

#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "engines/kubernetes/import/manifest/yaml_documents.h"

namespace longhaul::engines::kubernetes {
namespace {

// JSON, or nothing if the text is none: then it may still be YAML.
std::optional<Result<JobJson>> ReadJson(std::string_view text, const std::string& file) {
  std::string mistake;
  size_t values = 0;
  std::vector<std::set<std::string>> keys;  // of the open objects and lists
  const auto check = [&](int, JobJson::parse_event_t event, JobJson& value) {
    using Event = JobJson::parse_event_t;
    const bool begins = event == Event::object_start || event == Event::array_start;
    if (begins) keys.emplace_back();
    if (event == Event::object_end || event == Event::array_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.get<std::string>()).second) {
      mistake = "the key '" + Printable(value.get<std::string>(), 60) + "' is there twice";
    }
    if (event == Event::key && keys.back().size() > kMostManifestKeys) {
      mistake = "a map has more than " + WithThousands(kMostManifestKeys) + " keys";
    }
    if ((begins || event == Event::value) && ++values > kMostManifestValues) {
      mistake = "has more than " + WithThousands(kMostManifestValues) + " values: divide it";
    }
    if (keys.size() > kMostManifestDepth) {
      mistake = "values are nested deeper than " + std::to_string(kMostManifestDepth) + " levels";
    }
    return mistake.empty();
  };
  // A value is kept only while there is no mistake, so that none becomes too deep.
  JobJson value = JobJson::parse(text, check, false);
  if (!mistake.empty()) return Result<JobJson>(InvalidArgument(file + ": " + mistake));
  if (value.is_discarded()) return std::nullopt;
  return Result<JobJson>(std::move(value));
}

Result<std::vector<JobJson>> ReadDocuments(std::string_view text, const std::string& file) {
  if (Trim(text).starts_with('{')) {
    std::optional<Result<JobJson>> json = ReadJson(text, file);
    if (json && !json->ok()) return json->status();
    if (json) return std::vector<JobJson>{**std::move(json)};
  }
  return ReadYamlDocuments(text, file);
}

// A member that is a text, or an empty one.
std::string TextOf(const JobJson& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Status AddObject(ManifestOrigin origin, JobJson object, std::vector<Manifest>* out);

Status AddItems(const ManifestOrigin& origin, JobJson& list, std::vector<Manifest>* out) {
  JobJson& items = list["items"];
  if (items.is_null()) items = JobJson::array();
  if (!items.is_array() || origin.item != 0) {
    return InvalidArgument(ToString(origin) + ": items: expected a list of objects, and no List " +
                           "in a List");
  }
  ManifestOrigin inner = origin;
  for (JobJson& item : items) {
    ++inner.item;
    RETURN_IF_ERROR(AddObject(inner, std::move(item), out));
  }
  return {};
}

Status AddObject(ManifestOrigin origin, JobJson object, std::vector<Manifest>* out) {
  origin.kind.clear();
  if (!object.is_object()) {
    return InvalidArgument(ToString(origin) + ": is " + ShowValue(object) +
                           ", expected an object with apiVersion and kind");
  }
  origin.kind = TextOf(object, "kind");
  if (origin.kind.empty() || TextOf(object, "apiVersion").empty()) {
    return InvalidArgument(ToString(origin) + ": has no apiVersion or no kind, expected both");
  }
  if (origin.kind.ends_with("List") && object.contains("items")) {
    return AddItems(origin, object, out);
  }
  const auto metadata = object.find("metadata");
  if (metadata != object.end() && metadata->is_object()) {
    const std::string space = TextOf(*metadata, "namespace");
    const std::string name = TextOf(*metadata, "name");
    origin.name = space + (space.empty() ? "" : "/") + name;
  }
  out->push_back({std::move(origin), std::move(object)});
  return {};
}

}  // namespace

Result<std::vector<Manifest>> ReadManifests(std::string_view text, const std::string& file) {
  if (text.size() > kMostManifestBytes) {
    return InvalidArgument(file + ": has " + WithThousands(static_cast<int64_t>(text.size())) +
                           " bytes, expected at most 4 MiB: divide it");
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // the mark of UTF-8
  if (!IsUtf8(text) || text.find('\0') != text.npos) {
    return InvalidArgument(file + ": is not UTF-8 text");
  }
  ASSIGN_OR_RETURN(std::vector<JobJson> documents, ReadDocuments(text, file));
  std::vector<Manifest> manifests;
  uint32_t number = 0;
  for (JobJson& document : documents) {
    ++number;
    if (document.is_null()) continue;
    RETURN_IF_ERROR(AddObject({file, number, 0, "", ""}, std::move(document), &manifests));
  }
  return manifests;
}

}  // namespace longhaul::engines::kubernetes
