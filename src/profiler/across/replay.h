// The run once more, with one thing changed: what it would be worth.
//
// Each rank's segments become a list of work, of arrivals at collectives and of waits for them
// (where nothing hid them); an instance ends when its last member has arrived plus its wire time.
// Replayed as measured the list gives the measured time back; with a rank's work scaled, or a
// link's wire, it says what the change is worth, with all that then waits for something else.
// A call that began right at the end of another of its stream begins earlier when that one ends
// earlier, down to when it was launched and its input computed. What computation a hidden call's
// end releases is not known from a trace, so one that becomes slower delays only those behind it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "profiler/across/job.h"

namespace longhaul::profiler {

struct Change {
  // Multiplies work's duration: rank, what it is.
  std::function<double(size_t rank, Spent spent)> work;
  // Multiplies that of the work that begins at this time of the rank's, besides.
  std::function<double(size_t rank, int64_t begin_ns)> moment;
  // Multiplies an instance's wire time.
  std::function<double(size_t instance)> wire;
};

class Replay {
 public:
  explicit Replay(const Job& job);

  // Seconds from the first rank's begin to the last one's end. Deterministic.
  double Run(const Change& change = {}) const;

 private:
  enum class Kind : uint8_t { kWork, kArrive, kWait };
  struct Item {
    int64_t begin_ns = 0;     // of kWork
    int64_t duration_ns = 0;  // of kWait: by how much it left before the call's end
    int32_t instance = -1;
    int32_t behind = -1;  // of kArrive: the instance that had the wire until this began
    Kind kind = Kind::kWork;
    Spent spent = Spent::kOtherCompute;
  };
  struct Arrival;
  class Runner;
  static std::vector<Arrival> Arrivals(const Job& job, size_t rank);
  void FindHidden(const Job& job);
  void Build(const Job& job, size_t rank);

  std::array<bool, kDimensions> hidden_ = {};
  std::vector<std::vector<Item>> items_;
  std::vector<int64_t> begin_;
  std::vector<int64_t> wire_;
  std::vector<uint32_t> members_;
  std::vector<std::vector<uint32_t>> ranks_of_;  // of an instance
};

// Where the time of the whole run went, walking back from its end: work of the rank that everything
// waited for, and the wire between. Its pieces tile the run from the first rank's begin to the last
// one's end.
struct CriticalPath {
  struct Piece {
    size_t rank = 0;
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    Spent spent = Spent::kOtherCompute;  // kExposed: wire
    Dimension dimension = Dimension::kUnknown;
  };
  std::vector<Piece> pieces;  // in order of time
};
CriticalPath FindCriticalPath(const Job& job);

}  // namespace longhaul::profiler
