#include "sim/crash_file_system.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "base/random.h"
#include "base/text.h"

namespace longhaul::sim {
namespace {

constexpr size_t kSectorBytes = 512;

std::vector<std::string> PartsOf(const std::string& path) {
  std::vector<std::string> parts;
  for (const std::string_view part : Split(path, '/')) {
    if (!part.empty() && part != ".") parts.emplace_back(part);
  }
  return parts;
}

}  // namespace

struct CrashFileSystem::Operation {
  enum class Kind { kCreate, kAppend, kSync, kRename, kRemove, kMakeDirectory, kSyncDirectory };
  Kind kind;
  size_t node = 0;   // the directory, or the file of an append or sync
  std::string name;  // in the directory
  std::string to;    // of a rename
  std::vector<std::byte> bytes;
};

// What the running system sees, and beneath it what is durable.
class CrashFileSystem::Disk {
 public:
  using Entries = std::map<std::string, size_t>;
  struct EntryChange {
    std::string removed;  // empty: none
    std::string set;      // empty: none
    size_t node = 0;
  };
  struct Node {
    bool directory = false;
    std::vector<std::byte> data;
    size_t synced = 0;  // of data
    Entries entries;
    Entries durable;
    std::vector<EntryChange> pending;  // since the last sync, in order
  };

  Disk() : nodes_(1) { nodes_[0].directory = true; }

  std::optional<size_t> Find(const std::vector<std::string>& parts) const {
    size_t node = 0;
    for (const std::string& part : parts) {
      const auto found = nodes_[node].entries.find(part);
      if (found == nodes_[node].entries.end()) return std::nullopt;
      node = found->second;
    }
    return node;
  }
  Node& node(size_t index) { return nodes_[index]; }
  size_t size() const { return nodes_.size(); }

  void Apply(const Operation& operation) {
    using Kind = Operation::Kind;
    switch (operation.kind) {
      case Kind::kAppend: {
        auto& data = nodes_[operation.node].data;
        data.insert(data.end(), operation.bytes.begin(), operation.bytes.end());
        return;
      }
      case Kind::kSync: {
        nodes_[operation.node].synced = nodes_[operation.node].data.size();
        return;
      }
      case Kind::kSyncDirectory: {
        nodes_[operation.node].durable = nodes_[operation.node].entries;
        nodes_[operation.node].pending.clear();
        return;
      }
      case Kind::kCreate:
      case Kind::kMakeDirectory: {
        nodes_.emplace_back().directory = operation.kind == Kind::kMakeDirectory;
        Change(operation.node, {"", operation.name, nodes_.size() - 1});
        return;
      }
      case Kind::kRemove:
        return Change(operation.node, {operation.name, "", 0});
      case Kind::kRename: {
        const size_t moved = nodes_[operation.node].entries.at(operation.name);
        return Change(operation.node, {operation.name, operation.to, moved});
      }
    }
  }

  // How many outcomes a crash has for each node, in order; 1 where there is nothing to lose.
  std::vector<uint64_t> Choices() const {
    std::vector<uint64_t> choices;
    for (const Node& node : nodes_) {
      if (node.directory) {
        choices.push_back(uint64_t{1} << std::min<size_t>(node.pending.size(), 20));
      } else if (node.data.size() == node.synced) {
        choices.push_back(1);
      } else {
        // 0: lost. 1: there. Then cuts at each sector's start, and as many torn ones.
        choices.push_back(2 + 2 * SectorStarts(node).size());
      }
    }
    return choices;
  }

  // The disk after a crash with one outcome chosen for each node. All of it is durable.
  std::unique_ptr<Disk> Crash(const std::vector<uint64_t>& chosen, Random& random) const {
    auto after = std::make_unique<Disk>();
    after->nodes_ = nodes_;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = after->nodes_[i];
      if (node.directory) {
        node.entries = node.durable;
        for (size_t k = 0; k < node.pending.size(); ++k) {
          if (chosen[i] >> std::min<size_t>(k, 63) & 1) ApplyTo(node.entries, node.pending[k]);
        }
        node.durable = node.entries;
        node.pending.clear();
      } else {
        CutData(node, chosen[i], random);
      }
    }
    return after;
  }

 private:
  static void ApplyTo(Entries& entries, const EntryChange& change) {
    if (!change.removed.empty()) entries.erase(change.removed);
    if (!change.set.empty()) entries[change.set] = change.node;
  }
  void Change(size_t directory, const EntryChange& change) {
    ApplyTo(nodes_[directory].entries, change);
    nodes_[directory].pending.push_back(change);
  }
  static std::vector<size_t> SectorStarts(const Node& node) {
    std::vector<size_t> starts;
    for (size_t at = (node.synced / kSectorBytes + 1) * kSectorBytes; at < node.data.size();
         at += kSectorBytes) {
      starts.push_back(at);
    }
    return starts;
  }
  static void CutData(Node& node, uint64_t choice, Random& random) {
    const std::vector<size_t> starts = SectorStarts(node);
    if (choice == 0) {
      node.data.resize(node.synced);
    } else if (choice >= 2 && choice < 2 + starts.size()) {
      node.data.resize(starts[choice - 2]);
    } else if (choice != 1) {
      // The length has arrived, some sectors have not.
      for (size_t at = node.synced; at < node.data.size();) {
        const size_t end = std::min(node.data.size(), (at / kSectorBytes + 1) * kSectorBytes);
        if (random.Below(2) == 0) {
          std::fill(node.data.begin() + static_cast<ptrdiff_t>(at),
                    node.data.begin() + static_cast<ptrdiff_t>(end), std::byte{0});
        }
        at = end;
      }
    }
    node.synced = node.data.size();
  }

  std::vector<Node> nodes_;
};

class CrashFileSystem::File final : public io::WritableFile {
 public:
  File(CrashFileSystem& files, size_t node, std::string path)
      : files_(files), node_(node), path_(std::move(path)) {}

  Status Append(std::span<const std::byte> bytes) override {
    if (files_.free_bytes_) {
      if (bytes.size() > *files_.free_bytes_) {
        return ResourceExhausted("cannot write " + path_ + ": no space left on device");
      }
      *files_.free_bytes_ -= bytes.size();
    }
    return files_.Record({Operation::Kind::kAppend, node_, "", "", {bytes.begin(), bytes.end()}});
  }
  Status Sync() override { return files_.Record({Operation::Kind::kSync, node_, "", "", {}}); }
  Status Close() override { return {}; }

 private:
  CrashFileSystem& files_;
  size_t node_;
  std::string path_;
};

namespace {

// What a file held when it was opened.
class OpenedFile final : public io::ReadableFile {
 public:
  OpenedFile(std::vector<std::byte> data, std::string path)
      : data_(std::move(data)), path_(std::move(path)) {}
  uint64_t bytes() const override { return data_.size(); }
  Status Read(uint64_t offset, std::span<std::byte> to) const override {
    if (offset > data_.size() || to.size() > data_.size() - offset) {
      return DataLoss(path_ + " ends at byte " + std::to_string(data_.size()));
    }
    std::copy_n(data_.begin() + static_cast<ptrdiff_t>(offset), to.size(), to.begin());
    return {};
  }

 private:
  std::vector<std::byte> data_;
  std::string path_;
};

}  // namespace

CrashFileSystem::CrashFileSystem()
    : disk_(std::make_unique<Disk>()), origin_(std::make_unique<Disk>()) {}
CrashFileSystem::~CrashFileSystem() = default;

size_t CrashFileSystem::operations() const { return log_.size(); }

Status CrashFileSystem::Record(Operation operation) {
  if (fail_in_ && (*fail_in_)-- == 0) {
    fail_in_.reset();
    return InternalError("injected failure of operation " + std::to_string(log_.size()));
  }
  disk_->Apply(operation);
  log_.push_back(std::move(operation));
  return {};
}

Result<std::unique_ptr<io::WritableFile>> CrashFileSystem::Create(const std::string& path) {
  std::vector<std::string> parts = PartsOf(path);
  CHECK(!parts.empty());
  const std::string name = parts.back();
  parts.pop_back();
  const std::optional<size_t> parent = disk_->Find(parts);
  if (!parent) return NotFound("cannot create " + path);
  RETURN_IF_ERROR(Record({Operation::Kind::kCreate, *parent, name, "", {}}));
  return std::unique_ptr<io::WritableFile>(new File(*this, disk_->size() - 1, path));
}

Result<std::unique_ptr<io::ReadableFile>> CrashFileSystem::Open(const std::string& path) {
  RETURN_IF_ERROR(Size(path).status());
  return std::unique_ptr<io::ReadableFile>(
      new OpenedFile(disk_->node(*disk_->Find(PartsOf(path))).data, path));
}

Result<std::vector<std::byte>> CrashFileSystem::ReadAll(const std::string& path, uint64_t limit) {
  ASSIGN_OR_RETURN(const uint64_t bytes, Size(path));
  if (bytes > limit) return ResourceExhausted(path + " is longer than the limit");
  return disk_->node(*disk_->Find(PartsOf(path))).data;
}

Result<uint64_t> CrashFileSystem::Size(const std::string& path) {
  const std::optional<size_t> node = disk_->Find(PartsOf(path));
  if (!node) return NotFound("cannot look at " + path);
  if (disk_->node(*node).directory) return InvalidArgument(path + " is a directory");
  return disk_->node(*node).data.size();
}

Status CrashFileSystem::Rename(const std::string& from, const std::string& to) {
  std::vector<std::string> source = PartsOf(from);
  std::vector<std::string> target = PartsOf(to);
  if (!disk_->Find(source)) return NotFound("cannot rename " + from);
  const std::string source_name = source.back();
  const std::string target_name = target.back();
  source.pop_back();
  target.pop_back();
  CHECK(source == target) << "renames between directories are not modelled";
  return Record({Operation::Kind::kRename, *disk_->Find(source), source_name, target_name, {}});
}

Status CrashFileSystem::Remove(const std::string& path) {
  std::vector<std::string> parts = PartsOf(path);
  const std::optional<size_t> node = disk_->Find(parts);
  if (!node) return NotFound("cannot remove " + path);
  if (disk_->node(*node).directory) return InvalidArgument(path + " is a directory");
  const std::string name = parts.back();
  parts.pop_back();
  return Record({Operation::Kind::kRemove, *disk_->Find(parts), name, "", {}});
}

Status CrashFileSystem::RemoveDirectory(const std::string& path) {
  std::vector<std::string> parts = PartsOf(path);
  const std::optional<size_t> node = disk_->Find(parts);
  if (!node) return NotFound("cannot remove directory " + path);
  if (!disk_->node(*node).entries.empty()) return FailedPrecondition(path + " is not empty");
  const std::string name = parts.back();
  parts.pop_back();
  return Record({Operation::Kind::kRemove, *disk_->Find(parts), name, "", {}});
}

Status CrashFileSystem::MakeDirectories(const std::string& path) {
  std::vector<std::string> made;
  for (const std::string& part : PartsOf(path)) {
    const size_t parent = *disk_->Find(made);
    made.push_back(part);
    const std::optional<size_t> node = disk_->Find(made);
    if (node && !disk_->node(*node).directory) return AlreadyExists(path + ": a file is there");
    if (!node) RETURN_IF_ERROR(Record({Operation::Kind::kMakeDirectory, parent, part, "", {}}));
  }
  return {};
}

Status CrashFileSystem::SyncDirectory(const std::string& path) {
  const std::optional<size_t> node = disk_->Find(PartsOf(path));
  if (!node) return NotFound("cannot sync directory " + path);
  return Record({Operation::Kind::kSyncDirectory, *node, "", "", {}});
}

Result<std::vector<std::string>> CrashFileSystem::List(const std::string& path) {
  const std::optional<size_t> node = disk_->Find(PartsOf(path));
  if (!node) return NotFound("cannot list " + path);
  std::vector<std::string> names;
  for (const auto& [name, entry] : disk_->node(*node).entries) names.push_back(name);
  return names;
}

void CrashFileSystem::FlipBit(const std::string& path, uint64_t bit) {
  const std::optional<size_t> node = disk_->Find(PartsOf(path));
  CHECK(node && bit / 8 < disk_->node(*node).data.size());
  disk_->node(*node).data[bit / 8] ^= std::byte{static_cast<unsigned char>(1u << bit % 8)};
}

size_t CrashFileSystem::ForEachCrash(
    size_t states_a_crash, uint64_t seed,
    const std::function<void(size_t, CrashFileSystem&)>& visit) const {
  Random random(seed);
  Disk disk = *origin_;
  size_t shown = 0;
  for (size_t done = 0; done <= log_.size(); ++done) {
    if (done > 0) disk.Apply(log_[done - 1]);
    const std::vector<uint64_t> choices = disk.Choices();
    uint64_t states = 1;
    for (const uint64_t count : choices) states = std::min(states * count, uint64_t{1} << 32);
    const bool all = states <= states_a_crash;
    for (uint64_t i = 0; i < (all ? states : states_a_crash); ++i) {
      std::vector<uint64_t> chosen;
      uint64_t rest = i;
      for (size_t node = 0; node < choices.size(); ++node) {
        const uint64_t count = choices[node];
        if (all) {
          chosen.push_back(rest % count);
          rest /= count;
        } else if (i < 2) {
          // Nothing kept; everything kept.
          chosen.push_back(i == 0 ? 0 : disk.node(node).directory ? count - 1 : count > 1);
        } else {
          chosen.push_back(random.Below(count));
        }
      }
      CrashFileSystem survivor;
      survivor.disk_ = disk.Crash(chosen, random);
      *survivor.origin_ = *survivor.disk_;
      visit(done, survivor);
      ++shown;
    }
  }
  return shown;
}

}  // namespace longhaul::sim
