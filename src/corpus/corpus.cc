#include "corpus/corpus.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <set>

#include "base/hash.h"
#include "base/text.h"
#include "corpus/glob.h"
#include "corpus/token_file.h"
#include "corpus/walk.h"
#include "io/fd.h"
#include "io/files/file.h"

namespace longhaul::corpus {
namespace {

constexpr size_t kMaxWarnings = 8;
constexpr size_t kChunkBytes = size_t{1} << 20;

void Skip(CorpusFacts& facts, std::string reason) {
  ++facts.skipped;
  if (facts.warnings.size() < kMaxWarnings) facts.warnings.push_back(std::move(reason));
}

Result<std::set<std::string>> FindCorpus(const spec::DataSpec& data, CorpusFacts& facts) {
  Found found;
  for (const std::string& glob : data.include) RETURN_IF_ERROR(FindFiles(glob, found));
  for (std::string& reason : found.unreadable) Skip(facts, std::move(reason));
  std::erase_if(found.paths, [&](const std::string& path) {
    return std::any_of(data.exclude.begin(), data.exclude.end(),
                       [&](const std::string& glob) { return MatchGlob(glob, path); });
  });
  if (!found.paths.empty()) return std::move(found.paths);
  std::string message = "no file matches data.include [" + Join(data.include, ", ") + "]";
  if (!data.exclude.empty()) message += " without data.exclude [" + Join(data.exclude, ", ") + "]";
  if (!facts.warnings.empty()) message += "; " + facts.warnings.front();
  return NotFound(message);
}

// The paths whose text is held out. Never all of them, and none of a single one.
std::set<std::string> HeldOutPaths(const std::set<std::string>& paths, double share) {
  std::set<std::string> held_out;
  if (paths.size() < 2) return held_out;
  const double limit = share * 0x1p64;
  for (const std::string& path : paths) {
    if (static_cast<double>(Hash64(path)) < limit) held_out.insert(path);
  }
  if (held_out.size() < paths.size()) return held_out;
  const auto last = std::max_element(
      paths.begin(), paths.end(),
      [](const std::string& a, const std::string& b) { return Hash64(a) < Hash64(b); });
  held_out.erase(*last);
  return held_out;
}

// Appends at most `budget` bytes of a file and the separator. Returns the bytes taken; a failure to
// read is put into `unreadable`, a failure to write is returned.
Result<uint64_t> AppendFile(const std::string& path, uint64_t budget, TokenWriter& writer,
                            Status& unreadable) {
  // Without blocking, so that a pipe which took the file's place doesn't hold us.
  const io::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!fd.valid() || fstat(fd.get(), &info) != 0) {
    unreadable = FromErrno(errno, "cannot open " + path);
    return uint64_t{0};
  }
  if (!S_ISREG(info.st_mode)) {
    unreadable = InvalidArgument(path + " is not a regular file");
    return uint64_t{0};
  }
  std::array<unsigned char, 64 * 1024> bytes;
  std::vector<uint16_t> tokens;
  uint64_t taken = 0;
  while (taken < budget) {
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(bytes.size(), budget - taken));
    const ssize_t got = read(fd.get(), bytes.data(), wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) unreadable = FromErrno(errno, "cannot read " + path);
    if (got <= 0) break;
    tokens.insert(tokens.end(), bytes.begin(), bytes.begin() + got);
    taken += static_cast<uint64_t>(got);
    if (tokens.size() >= kChunkBytes) {
      RETURN_IF_ERROR(writer.Append(tokens));
      tokens.clear();
    }
  }
  if (taken > 0) tokens.push_back(kSeparator);
  RETURN_IF_ERROR(writer.Append(tokens));
  return taken;
}

// Holds out the end of the training text when the files chosen for it are too short.
Status BalanceHeldOut(const spec::DataSpec& data, uint32_t sequence, TokenWriter& train,
                      TokenWriter& held_out) {
  const uint64_t sample = uint64_t{sequence} + 1;
  if (data.held_out > 0 && held_out.count() < sample) {
    const auto share =
        static_cast<uint64_t>(std::ceil(data.held_out * static_cast<double>(train.count())));
    RETURN_IF_ERROR(train.MoveTail(std::min(std::max(share, sample), train.count()), held_out));
  }
  if (train.count() >= sample && (data.held_out <= 0 || held_out.count() >= sample)) return {};
  return InvalidArgument("the text is too short: " + std::to_string(train.count()) +
                         " tokens to train on and " + std::to_string(held_out.count()) +
                         " held out, where a sample takes " + std::to_string(sample) +
                         "; give more text in data.include or a smaller model.sequence");
}

}  // namespace

Result<CorpusFacts> PrepareCorpus(const spec::DataSpec& data, uint32_t sequence,
                                  const std::string& directory) {
  CorpusFacts facts;
  ASSIGN_OR_RETURN(const std::set<std::string> paths, FindCorpus(data, facts));
  const std::set<std::string> held_out_paths = HeldOutPaths(paths, data.held_out);

  RETURN_IF_ERROR(io::PosixFileSystem().MakeDirectories(directory));
  ASSIGN_OR_RETURN(const auto train,
                   TokenWriter::Create(directory + "/" + kTrainFile, kVocabulary));
  ASSIGN_OR_RETURN(const auto held_out,
                   TokenWriter::Create(directory + "/" + kHeldOutFile, kVocabulary));
  uint64_t budget = data.max_bytes;
  for (const std::string& path : paths) {
    if (budget == 0) break;
    Status unreadable;
    TokenWriter& writer = held_out_paths.contains(path) ? *held_out : *train;
    ASSIGN_OR_RETURN(const uint64_t taken, AppendFile(path, budget, writer, unreadable));
    if (!unreadable.ok()) Skip(facts, unreadable.message());
    facts.files += unreadable.ok() || taken > 0;
    budget -= taken;
  }
  if (facts.files == 0) {
    return NotFound("none of the " + std::to_string(paths.size()) +
                    " files of data.include can be read: " + facts.warnings.front());
  }
  RETURN_IF_ERROR(BalanceHeldOut(data, sequence, *train, *held_out));

  facts.train_tokens = train->count();
  facts.train_samples = SamplesIn(train->count(), sequence);
  facts.held_out_tokens = held_out->count();
  std::array<uint64_t, 2> hashes{};
  ASSIGN_OR_RETURN(hashes[0], train->Finish());
  ASSIGN_OR_RETURN(hashes[1], held_out->Finish());
  RETURN_IF_ERROR(io::PosixFileSystem().SyncDirectory(directory));
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(Hash64(hashes.data(), sizeof(hashes))));
  facts.fingerprint = text;
  return facts;
}

}  // namespace longhaul::corpus
