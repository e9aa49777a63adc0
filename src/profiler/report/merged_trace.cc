#include <algorithm>
#include <cstdio>
#include <map>

#include "base/check.h"
#include "base/text.h"
#include "base/utf8.h"
#include "profiler/report/report.h"

namespace longhaul::profiler {
namespace {

std::string Quoted(std::string_view raw) { return nlohmann::json(ToValidUtf8(raw)).dump(); }

// Slices of a thread must not overlap: the format nests them.
class MergedTraceWriter {
 public:
  explicit MergedTraceWriter(const ProfiledJob& job) : job_(job), lane_of_(job.ranks.size()) {
    for (const RankSummary& rank : job.ranks) {
      if (!rank.segments.empty()) first_ = std::min(first_, rank.segments.front().begin_ns);
      if (!rank.steps.empty()) first_ = std::min(first_, rank.steps.front().begin_ns);
      if (!rank.collectives.empty()) first_ = std::min(first_, rank.collectives.front().start_ns);
    }
  }

  Status Write(const std::function<Status(std::string_view)>& write) {
    text_ = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
    const auto pass_on = [&](size_t at_least) -> Status {
      if (text_.size() < at_least) return {};
      RETURN_IF_ERROR(write(text_));
      text_.clear();
      return {};
    };
    for (size_t rank = 0; rank < job_.ranks.size(); ++rank) {
      Rank(rank);
      RETURN_IF_ERROR(pass_on(kPieceBytes));
    }
    // Behind all slices: an arrow is tied to the slice that is open when it is read.
    for (const Instance& instance : job_.instances) {
      Arrows(instance);
      RETURN_IF_ERROR(pass_on(kPieceBytes));
    }
    text_ += "{\"ph\":\"M\",\"name\":\"trace\",\"args\":{\"by\":\"longhaul profile\"}}\n]}\n";
    return pass_on(0);
  }

 private:
  static constexpr size_t kPieceBytes = size_t{1} << 20;
  static constexpr int kSteps = 1;
  static constexpr int kTime = 2;
  static constexpr int kExchanges = 3;  // and after it

  double Time(int64_t ns) const { return static_cast<double>(ns - first_) / 1e3; }
  long long PidOf(size_t rank) const {
    return static_cast<long long>(job_.ranks[rank].metadata.rank);
  }

  void Thread(size_t rank, int lane, const std::string& name) {
    AppendFormat(
        &text_,
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%lld,\"tid\":%d,\"args\":{\"name\":"
        "\"%s\"}},\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%lld,\"tid\":%d,"
        "\"args\":{\"sort_index\":%d}},\n",
        PidOf(rank), lane, name.c_str(), PidOf(rank), lane, lane);
  }

  void Slice(size_t rank, int lane, std::string_view name, int64_t begin, int64_t end,
             const std::string& arguments = "") {
    text_ += "{\"ph\":\"X\",\"name\":" + Quoted(name);
    AppendFormat(&text_, ",\"pid\":%lld,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f", PidOf(rank), lane,
                 Time(begin), static_cast<double>(end - begin) / 1e3);
    text_ += arguments.empty() ? "},\n" : ",\"args\":{" + arguments + "}},\n";
  }

  void Rank(size_t r) {
    const RankSummary& rank = job_.ranks[r];
    AppendFormat(&text_,
                 "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%lld,\"args\":{\"name\":\"rank "
                 "%lld\"}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%lld,\"args\":"
                 "{\"sort_index\":%lld}},\n",
                 PidOf(r), PidOf(r), PidOf(r), PidOf(r));
    Thread(r, kSteps, "steps");
    for (const Step& step : rank.steps) {
      Slice(r, kSteps, step.name, step.begin_ns, step.end_ns);
    }
    Thread(r, kTime, "time");
    for (const Segment& s : rank.segments) {
      if (IsIdle(s.spent)) continue;
      const bool phased = s.phase != Phase::kUnknown;
      Slice(r, kTime, ToString(s.spent), s.begin_ns, s.end_ns,
            phased ? "\"phase\":\"" + std::string(ToString(s.phase)) + "\"" : "");
    }
    Exchanges(r);
  }

  // A lane a dimension, and more of them where its calls overlap.
  void Exchanges(size_t r) {
    const RankSummary& rank = job_.ranks[r];
    std::map<Dimension, std::vector<std::pair<int, int64_t>>> lanes;  // number, until when
    int used = kExchanges;
    for (size_t i = 0; i < rank.collectives.size(); ++i) {
      const Collective& call = rank.collectives[i];
      const Dimension dimension = job_.DimensionOf(r, i);
      auto& own = lanes[dimension];
      auto free = std::find_if(own.begin(), own.end(),
                               [&](const auto& lane) { return lane.second <= call.start_ns; });
      if (free == own.end()) {
        const std::string number = own.empty() ? "" : " " + std::to_string(own.size() + 1);
        Thread(r, used, std::string(ToString(dimension)) + " exchanges" + number);
        free = own.insert(own.end(), {used++, 0});
      }
      free->second = call.end_ns;
      lane_of_[r].push_back(free->first);
      Slice(r, free->first, ToString(call.kind), call.start_ns, call.end_ns, NotesOf(r, i));
    }
  }

  std::string NotesOf(size_t rank, size_t i) const {
    const Collective& call = job_.ranks[rank].collectives[i];
    std::string notes = "\"group\":" + Quoted(job_.groups[job_.group_of[rank][call.group]].name);
    AppendFormat(&notes, ",\"bytes\":%lld", static_cast<long long>(call.bytes));
    const int32_t place = job_.instance_of[rank][i];
    if (place < 0) return notes;
    const Instance& instance = job_.instances[static_cast<size_t>(place)];
    AppendFormat(
        &notes, ",\"waited_us\":%.3f,\"wire_us\":%.3f,\"came_last\":%lld",
        static_cast<double>(std::max<int64_t>(0, instance.last_arrival_ns - call.start_ns)) / 1e3,
        static_cast<double>(instance.wire_ns()) / 1e3,
        PidOf(instance.members[instance.last_member].rank));
    return notes;
  }

  const Collective& CallOf(const Member& m) const {
    return job_.ranks[m.rank].collectives[m.collective];
  }

  void Arrows(const Instance& instance) {
    const Member& last = instance.members[instance.last_member];
    for (const Member& to : instance.members) {
      if (CallOf(to).kind == CollectiveKind::kSend) continue;
      for (const Member& from : instance.members) {
        if (CallOf(from).kind != CollectiveKind::kSend) continue;
        // From when both are there to when it has arrived.
        Arrow("message", from, Within(from, instance.last_arrival_ns), to, Within(to, INT64_MAX));
      }
      if (CallOf(to).kind == CollectiveKind::kReceive || &to == &last) continue;
      if (CallOf(last).kind == CollectiveKind::kSend) continue;
      Arrow("came last", last, Within(last, instance.last_arrival_ns), to,
            Within(to, instance.last_arrival_ns));
    }
  }

  // The moment of the member's call that is nearest.
  int64_t Within(const Member& m, int64_t time) const {
    const Collective& call = CallOf(m);
    return std::clamp(time, call.start_ns, std::max(call.start_ns, call.end_ns - 1));
  }

  // None to the past, which is clocks' error, and none to a call without length.
  void Arrow(const char* name, const Member& from, int64_t begin, const Member& to, int64_t end) {
    const auto empty = [this](const Member& m) { return CallOf(m).end_ns <= CallOf(m).start_ns; };
    if (end < begin || empty(from) || empty(to)) return;
    const auto half = [&](const char* phase, const Member& m, int64_t time) {
      AppendFormat(&text_,
                   "{%s,\"id\":%zu,\"cat\":\"exchange\",\"name\":\"%s\",\"pid\":%lld,\"tid\":%d,"
                   "\"ts\":%.3f},\n",
                   phase, arrows_, name, PidOf(m.rank), lane_of_[m.rank][m.collective], Time(time));
    };
    ++arrows_;
    half("\"ph\":\"s\"", from, begin);
    half("\"ph\":\"f\",\"bp\":\"e\"", to, end);
  }

  const ProfiledJob& job_;
  int64_t first_ = INT64_MAX;
  std::vector<std::vector<int>> lane_of_;  // [rank][collective]
  size_t arrows_ = 0;
  std::string text_;
};

}  // namespace

Status WriteMergedTrace(const ProfiledJob& job,
                        const std::function<Status(std::string_view)>& write) {
  return MergedTraceWriter(job).Write(write);
}

std::string MergedTrace(const ProfiledJob& job) {
  std::string text;
  const Status written = WriteMergedTrace(job, [&text](std::string_view piece) {
    text += piece;
    return Status();
  });
  CHECK(written.ok());
  return text;
}

}  // namespace longhaul::profiler
