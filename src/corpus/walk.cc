#include "corpus/walk.h"

#include <dirent.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "corpus/glob.h"

namespace longhaul::corpus {
namespace {

enum class Kind { kDirectory, kLink, kOther };

struct Entry {
  std::string name;
  Kind kind;
};

Kind KindOf(unsigned char type, const std::string& path) {
  if (type == DT_DIR) return Kind::kDirectory;
  if (type == DT_LNK) return Kind::kLink;
  if (type != DT_UNKNOWN) return Kind::kOther;
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return Kind::kOther;
  return S_ISDIR(info.st_mode) ? Kind::kDirectory
                               : (S_ISLNK(info.st_mode) ? Kind::kLink : Kind::kOther);
}

class Walk {
 public:
  Walk(std::string_view glob, Found& found) : components_(Components(glob)), found_(found) {}

  // Matches components [at, end) below `directory` ("" is the current one, "/" the root).
  Status Expand(const std::string& directory, size_t at) {
    // "**" can reach a directory on several ways; each is done once for each place in the pattern.
    if (!visited_.emplace(directory, at).second) return {};
    const bool last = at + 1 == components_.size();
    const std::string_view component = components_[at];
    if (component == "**") {
      if (!last) RETURN_IF_ERROR(Expand(directory, at + 1));
      return ExpandBelow(directory, at, last);
    }
    if (IsLiteral(component)) {
      const std::string path = directory + Unescape(component);
      return last ? Add(path) : Expand(path + "/", at + 1);
    }
    for (const Entry& entry : List(directory)) {
      if (entry.name[0] == '.' && component[0] != '.') continue;
      if (!MatchComponent(component, entry.name)) continue;
      if (!last && entry.kind != Kind::kOther) {
        RETURN_IF_ERROR(Expand(directory + entry.name + "/", at + 1));
      } else if (last && entry.kind != Kind::kDirectory) {
        RETURN_IF_ERROR(Add(directory + entry.name));
      }
    }
    return {};
  }

 private:
  Status ExpandBelow(const std::string& directory, size_t at, bool last) {
    for (const Entry& entry : List(directory)) {
      if (entry.name[0] == '.') continue;
      if (entry.kind == Kind::kDirectory) {
        RETURN_IF_ERROR(Expand(directory + entry.name + "/", at));
      } else if (last) {
        RETURN_IF_ERROR(Add(directory + entry.name));
      }
    }
    return {};
  }

  Status Add(const std::string& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
    found_.paths.insert(path);
    if (found_.paths.size() <= kMaxFiles) return {};
    return ResourceExhausted("the globs match more than " + std::to_string(kMaxFiles) + " files");
  }

  // The entries of a directory but "." and "..", in no order: the set of paths sorts.
  std::vector<Entry> List(const std::string& directory) {
    const std::string path = directory.empty() ? "." : directory;
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(path.c_str()), closedir);
    std::vector<Entry> entries;
    if (stream == nullptr) {
      if (errno != ENOENT && errno != ENOTDIR) {
        found_.unreadable.push_back(FromErrno(errno, "cannot list " + path).message());
      }
      return entries;
    }
    while (const dirent* entry = readdir(stream.get())) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      entries.push_back({name, KindOf(entry->d_type, directory + name)});
    }
    return entries;
  }

  std::vector<std::string_view> components_;
  std::set<std::pair<std::string, size_t>> visited_;
  Found& found_;
};

}  // namespace

Status FindFiles(const std::string& glob, Found& found) {
  Walk walk(glob, found);
  if (Components(glob).empty()) return {};
  return walk.Expand(glob.starts_with('/') ? "/" : "", 0);
}

}  // namespace longhaul::corpus
