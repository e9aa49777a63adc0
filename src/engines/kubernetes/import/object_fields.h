// Reads the members of one object of a manifest, and reports those that nobody read.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "engines/kubernetes/import/import_report.h"

namespace longhaul::engines::kubernetes {

// A member that is null counts as absent, as in Kubernetes. A member of a wrong type is an error of
// the translation, and is absent afterwards. Keeps references to its arguments.
class ObjectFields {
 public:
  // `object`: an object or null.
  ObjectFields(const JobJson& object, std::string path, Translation& translation);
  ObjectFields(const ObjectFields&) = delete;
  ObjectFields& operator=(const ObjectFields&) = delete;

  std::string PathOf(std::string_view name) const;
  const std::string& path() const { return path_; }
  bool Has(std::string_view name) const { return !Peek(name).is_null(); }

  // The member, which then counts as read; null where there is none.
  const JobJson& Take(std::string_view name);
  const JobJson& TakeObject(std::string_view name);  // an object or null
  const JobJson& TakeList(std::string_view name);    // a list of objects, or null
  std::string TakeText(std::string_view name);       // empty where there is none
  std::optional<bool> TakeTruth(std::string_view name);
  std::optional<int64_t> TakeNumber(std::string_view name, int64_t least, int64_t most);

  // Reports a member if it is there; it then counts as read.
  void Changed(std::string_view name, const std::string& reason);
  void Dropped(std::string_view name, const std::string& reason);
  void NotNeeded(std::string_view name, const std::string& reason);

  // Reports the members that were not read.
  void Finish();

 private:
  const JobJson& Peek(std::string_view name) const;
  void Fail(std::string_view name, const std::string& expected);

  const JobJson& object_;
  const std::string path_;
  Translation& translation_;
  std::set<std::string, std::less<>> read_;
};

// "spec.template.spec", "containers[2]"
std::string PathJoin(const std::string& path, std::string_view name);
std::string PathItem(const std::string& path, size_t index);

}  // namespace longhaul::engines::kubernetes
