// Turns a job's `data:` section into two token files: the training text and the held-out text.
//
// Files are found by globs (glob.h) and taken in byte-wise sorted order of their paths until
// max_bytes of text are read; the last file is cut at that limit. Tokens are the bytes themselves,
// and each file is followed by the separator token 256. A file is held out when the hash of its
// path falls into the held-out share, so the split does not change when files are added. Where this
// gives less held-out text than one sample (few files), the last share of the training text is held
// out instead.
//
// Paths are used as given: relative globs start at the current directory. Runs once, when a job is
// submitted; workers only read the result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "spec/job/job.h"

namespace longhaul::corpus {

constexpr uint16_t kSeparator = 256;
constexpr uint32_t kVocabulary = 257;
constexpr const char* kTrainFile = "train.tokens";
constexpr const char* kHeldOutFile = "held_out.tokens";

struct CorpusFacts {
  uint64_t train_tokens = 0;
  // Sample i is the tokens [i * sequence, i * sequence + sequence], the last one a target only.
  uint64_t train_samples = 0;
  uint64_t held_out_tokens = 0;
  uint64_t files = 0;                 // taken
  uint64_t skipped = 0;               // found, but not readable
  std::vector<std::string> warnings;  // for the first few skipped files, with the reason
  std::string fingerprint;            // of both token files, 16 hex digits

  friend bool operator==(const CorpusFacts&, const CorpusFacts&) = default;
};

// Writes `directory`/train.tokens and held_out.tokens (made with its parents), each atomically.
// A file that can't be read is skipped and counted. Fails with kNotFound naming the globs when no
// file is left, and with kInvalidArgument when the text is too short for one sample of `sequence`
// tokens or, with held_out above zero, for one held-out sample.
Result<CorpusFacts> PrepareCorpus(const spec::DataSpec& data, uint32_t sequence,
                                  const std::string& directory);

// The number of samples in `tokens` tokens.
inline uint64_t SamplesIn(uint64_t tokens, uint32_t sequence) {
  return tokens == 0 ? 0 : (tokens - 1) / sequence;
}

}  // namespace longhaul::corpus
