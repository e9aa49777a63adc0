// Detects losses that rise far above the ones before them.
//
// A loss is suspect if it is above `median + 8 * 1.4826 * MAD` and above twice the median, where
// the median and the median absolute deviation (MAD) are those of the newest 64 good losses; 1.4826
// makes the MAD an estimate of the standard deviation. Three suspect losses in a row are a spike.
// A suspect loss does not count as good, so a spike cannot raise its own limit. After 64 suspect
// losses in a row the new level counts as good. Nothing is detected before 20 good losses, and
// where the median is not above zero. Leaves out losses that are not finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace longhaul::runtime::controller {

class LossSpikes {
 public:
  static constexpr size_t kWindow = 64;
  static constexpr size_t kLeast = 20;
  static constexpr size_t kInARow = 3;

  struct Spike {
    uint64_t first_step = 0;
    uint64_t last_step = 0;
    double loss = 0;  // of the last step
    double median = 0;
    double limit = 0;
  };

  // Takes the loss of a step. Returns a spike with its third step, and only once for each row.
  // Requires a finite loss.
  std::optional<Spike> Take(uint64_t step, double loss);
  // The steps after this one will be done again.
  void Rewind(uint64_t step);

 private:
  struct Entry {
    uint64_t step;
    double loss;
  };

  void Keep(const Entry& entry);

  std::deque<Entry> good_;      // the newest ones, by step
  std::vector<Entry> suspect_;  // in a row, up to the newest step
};

}  // namespace longhaul::runtime::controller
