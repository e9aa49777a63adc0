#include "profiler/read/kineto_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "profiler/read/json_event.h"
#include "profiler/read/metadata.h"

namespace longhaul::profiler {
namespace {

constexpr size_t kWindow = 1 << 20;
constexpr size_t kMaxShapesText = 4096;
// A damaged file may make us look at the same bytes again and again for an object's end: after so
// many of them objects get a short limit.
constexpr uint64_t kRescanFree = 256 << 20;
constexpr size_t kShortEvent = 64 << 10;

// The part of the text that is being looked at.
class Window {
 public:
  explicit Window(ByteSource& source) : source_(source), text_(kWindow + kScanPadding) {}

  const char* at() const { return text_.data() + begin_; }
  const char* end() const { return text_.data() + end_; }
  size_t size() const { return end_ - begin_; }
  void Advance(const char* to) { begin_ = static_cast<size_t>(to - text_.data()); }
  uint64_t offset() const { return discarded_ + begin_; }
  uint64_t line() const { return lines_ + Lines() + 1; }
  const std::optional<Status>& failure() const { return failure_; }
  uint64_t rescanned() const { return rescanned_; }

  // Reads on, keeping what is from at() on; false at the end of the input. Pointers move.
  bool More() {
    if (failure_.has_value() || ended_) return false;
    lines_ += Lines();
    discarded_ += begin_;
    std::memmove(text_.data(), at(), size());
    end_ -= begin_;
    begin_ = 0;
    rescanned_ += end_;
    // The window doubles for an object that does not fit. The padding after the end is zeroed,
    // since the scanner reads beyond it.
    if (end_ + kWindow / 2 + kScanPadding > text_.size()) text_.resize(text_.size() * 2);
    const size_t room = std::min(text_.size() - kScanPadding - end_, std::max(kWindow, end_));
    Result<size_t> got = source_.Read(std::span(text_).subspan(end_, room));
    if (!got.ok()) {
      failure_ = got.status();
      return false;
    }
    ended_ = *got == 0;
    end_ += *got;
    std::memset(text_.data() + end_, 0, kScanPadding);
    return *got > 0;
  }

  // At something that isn't a space; false at the end of the input.
  bool Space() {
    for (;;) {
      Advance(SkipSpace(at(), end()));
      if (at() < end()) return true;
      if (!More()) return false;
    }
  }

 private:
  // Line ends before at().
  uint64_t Lines() const {
    return static_cast<uint64_t>(
        std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(begin_), '\n'));
  }

  ByteSource& source_;
  std::vector<char> text_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool ended_ = false;
  uint64_t discarded_ = 0;
  uint64_t lines_ = 0;
  uint64_t rescanned_ = 0;
  std::optional<Status> failure_;
};

bool IsEventKey(std::string_view text) {
  constexpr auto kKeys = std::to_array<std::string_view>(
      {"\"ph\"", "\"name\"", "\"cat\"", "\"ts\"", "\"pid\"", "\"tid\"", "\"dur\"", "\"args\""});
  return std::any_of(kKeys.begin(), kKeys.end(),
                     [text](std::string_view key) { return text.starts_with(key); });
}

class KinetoReader {
 public:
  KinetoReader(ByteSource& source, const ReadOptions& options)
      : source_(source), options_(options), window_(source) {}

  Result<RankTrace> Read(const std::string& path) {
    trace_.path = path;
    while (window_.Space()) Document();
    Finish();
    if (window_.failure().has_value()) {
      if (trace_.report.events == 0) return window_.failure()->WithContext(path);
      Note(window_.failure()->message());
      trace_.report.cut = true;
    }
    const bool foreign =
        options_.found && trace_.events.size() == 0 && trace_.metadata.rank == kNoRank;
    if (foreign || (trace_.report.events == 0 && !trace_like_)) {
      return InvalidArgument(path +
                             " holds no trace: expected JSON with \"traceEvents\" or a list " +
                             "of events, as torch.profiler's export_chrome_trace writes it");
    }
    return std::move(trace_);
  }

 private:
  void Note(std::string what) {
    ++trace_.report.damages;
    if (trace_.report.kept.size() < ReadReport::kDamagesKept) {
      trace_.report.kept.push_back({window_.offset(), window_.line(), std::move(what)});
    }
  }

  // One document, from its bracket on. Requires a window at something.
  void Document() {
    if (window_.offset() == 0 && window_.at()[0] == '\xEF') {  // a byte order mark
      window_.Advance(window_.at() + std::min<size_t>(3, window_.size()));
      return;
    }
    if (started_) Note("a second document begins");
    started_ = true;
    if (*window_.at() == '[') {
      window_.Advance(window_.at() + 1);
      trace_like_ = true;
      Events();
    } else if (*window_.at() == '{') {
      window_.Advance(window_.at() + 1);
      Members();
    } else {
      Note("neither an object nor a list begins here");
      if (Resync())
        Events();
      else
        window_.Advance(window_.end());
    }
  }

  // The members of the outermost object, up to its end.
  void Members() {
    for (;;) {
      if (!window_.Space()) return Cut();
      const char c = *window_.at();
      if (c == ',' || c == '}') {
        window_.Advance(window_.at() + 1);
        if (c == '}') return;
        continue;
      }
      std::string key;
      if (c != '"' || !Key(&key)) {
        Note("a member of the outermost object is damaged");
        if (!Resync()) return Cut();
        Events();
        continue;
      }
      if (key == "traceEvents" && *window_.at() == '[') {
        window_.Advance(window_.at() + 1);
        trace_like_ = true;
        Events();
      } else if (!Member(key)) {
        if (!Resync()) return Cut();
        Events();
      }
    }
  }

  // A key and its colon; the window is at the value then.
  bool Key(std::string* key) {
    ScanResult result;
    if (!Whole([](const char* begin, const char* end) { return SkipValue(begin, end); },
               kShortEvent, &result)) {
      return false;
    }
    key->assign(window_.at() + 1, result.at - 1);
    window_.Advance(result.at);
    if (!window_.Space() || *window_.at() != ':') return false;
    window_.Advance(window_.at() + 1);
    return window_.Space();
  }

  // A member's value; keeps what is known.
  bool Member(const std::string& key) {
    ScanResult result;
    if (!Whole([](const char* begin, const char* end) { return SkipValue(begin, end); },
               options_.max_header_bytes, &result)) {
      Note("the value of \"" + Printable(key, 60) + "\" is damaged");
      return false;
    }
    if (IsKnownMember(key)) {
      const std::string_view json(window_.at(), static_cast<size_t>(result.at - window_.at()));
      if (!ReadMember(key, json, &trace_.metadata)) Note("cannot read \"" + key + "\"");
    }
    window_.Advance(result.at);
    return true;
  }

  // Calls `scan` with ever more text until it has all it needs. False when it is bad, too long or
  // the input ends; the window stays.
  template <typename ScanFunction>
  bool Whole(ScanFunction scan, size_t limit, ScanResult* result) {
    for (;;) {
      *result = scan(window_.at(), window_.end());
      if (result->scan == Scan::kOk) return true;
      if (result->scan == Scan::kBad) return false;
      if (window_.size() > limit || !window_.More()) return false;
    }
  }

  // The events, up to the bracket that closes their list.
  void Events() {
    for (;;) {
      if (!window_.Space()) return Cut();
      const char c = *window_.at();
      if (c == ']') {
        window_.Advance(window_.at() + 1);
        return;
      }
      if (c == ',') {
        window_.Advance(window_.at() + 1);
        continue;
      }
      if (c == '{' && OneEvent()) continue;
      if (c != '{') Note("an event should begin here");
      if (!Resync()) return Cut();
    }
  }

  bool OneEvent() {
    // A file of damaged objects would be read again for each of them. Good events earn further
    // reading; after too much of it, long objects count as damage.
    const size_t limit = window_.rescanned() > kRescanFree + trace_.report.events * 1024
                             ? std::min(kShortEvent, options_.max_event_bytes)
                             : options_.max_event_bytes;
    RawEvent event;
    ScanResult result;
    const bool good = Whole(
        [&event](const char* begin, const char* end) {
          // The scan begins at the object's start again when more text has been read, so fields of
          // the first attempt must go: their views point into text that has moved.
          event = RawEvent();
          return ScanEvent(begin, end, &event);
        },
        limit, &result);
    if (!good) {
      Note(result.scan == Scan::kBad ? std::string("a damaged event: ") + result.what
           : window_.size() > limit  ? "an event without an end, or a very long one"
                                     : "the file ends inside an event");
      return false;
    }
    Take(event);
    window_.Advance(result.at);
    return true;
  }

  // Goes to the next text that begins like an event ('{' after a comma, a bracket or a brace, and
  // then one of an event's keys) or that ends the list of events. Counts the skipped bytes.
  bool Resync() {
    if (window_.size() == 0 && !window_.More()) return false;
    const uint64_t from = window_.offset();
    char before = 0;                    // the last byte that isn't a space
    window_.Advance(window_.at() + 1);  // what is wrong begins here
    for (;;) {
      if (window_.size() < 64 && window_.More()) continue;
      if (window_.size() == 0) break;
      const char* p = window_.at();
      const char* const stop = window_.end();
      for (; p < stop; ++p) {
        if (stop - p < 64 && p != window_.at()) break;  // read on, to see whole keys
        if (*p == '{' && (before == ',' || before == '[' || before == '}' || before == 0)) {
          const char* const key = SkipSpace(p + 1, stop);
          if (IsEventKey({key, static_cast<size_t>(stop - key)})) {
            window_.Advance(p);
            trace_.report.bytes_lost += window_.offset() - from;
            return true;
          }
        }
        if (*p == ']' && before == '}') {
          const char* const next = SkipSpace(p + 1, stop);
          if (next == stop || *next == ',' || *next == '}') {
            window_.Advance(p);
            trace_.report.bytes_lost += window_.offset() - from;
            return true;
          }
        }
        if (*p > ' ' || *p < 0) before = *p;
      }
      window_.Advance(p);
    }
    trace_.report.bytes_lost += window_.offset() - from;
    return false;
  }

  void Cut() {
    if (!trace_.report.cut) Note("the file ends too early");
    trace_.report.cut = true;
  }

  uint32_t Intern(std::string_view raw) {
    if (raw.find('\\') == raw.npos) return trace_.strings.Add(raw);
    return trace_.strings.Add(Unescape(raw));
  }

  // "3113936", "\"Spans\"": the number, or the text.
  int64_t Identity(std::string_view raw, uint32_t* text) {
    if (raw.size() >= 2 && raw.front() == '"') raw = raw.substr(1, raw.size() - 2);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(raw.data(), raw.data() + raw.size(), number);
    if (error == std::errc() && end == raw.data() + raw.size()) return number;
    *text = Intern(raw);
    return 0;
  }

  uint32_t TrackOf(const RawEvent& event) {
    Track track;
    track.pid = Identity(event.pid, &track.pid_text);
    track.tid = Identity(event.tid, &track.tid_text);
    const uint64_t mixed = static_cast<uint64_t>(track.pid) * 0x9E3779B97F4A7C15u +
                           static_cast<uint64_t>(track.tid) * 0xC2B2AE3D27D4EB4Fu +
                           track.pid_text * 31 + track.tid_text * 17;
    uint32_t& recent = recent_tracks_[mixed >> 56];
    if (recent < trace_.tracks.size() && trace_.tracks[recent] == track) return recent;
    auto& same = tracks_[mixed];
    for (const uint32_t candidate : same) {
      if (trace_.tracks[candidate] == track) return recent = candidate;
    }
    recent = static_cast<uint32_t>(trace_.tracks.size());
    same.push_back(recent);
    trace_.tracks.push_back(track);
    return recent;
  }

  static uint32_t Narrow(int64_t value) {
    return value > 0 && value <= std::numeric_limits<uint32_t>::max() ? static_cast<uint32_t>(value)
                                                                      : 0;
  }

  void Take(const RawEvent& raw) {
    ++trace_.report.events;
    switch (raw.phase) {
      case 'X':
        break;
      case 'B':
      case 'E':
        return TakePair(raw);
      case 's':
      case 'f':
      case 't':
        ++trace_.report.flows;
        return;
      default:
        return;
    }
    const Category category = CategoryOf(raw.category);
    if (category == Category::kPython) {
      ++trace_.report.python;
      if (!options_.places) return;
    }
    if (!raw.has_time) return Note("a span without a time: " + Printable(raw.name, 60));
    Event event = Basic(raw, category);
    if (raw.has_duration && raw.duration_ns >= 0 &&
        raw.duration_ns < std::numeric_limits<int64_t>::max() / 4) {
      event.duration_ns = raw.duration_ns;
    } else if (raw.has_duration) {
      Note("a duration that can't be: " + Printable(raw.name, 60));
    }
    event.detail = Detail(raw, category);
    if (raw.has_stream && category == Category::kCpuOp) {
      trace_.host_rows_with_stream.push_back(trace_.events.size());
    }
    Keep(event);
  }

  Event Basic(const RawEvent& raw, Category category) {
    trace_.fractional_times = trace_.fractional_times || raw.fraction;
    Event event;
    event.start_ns = raw.time_ns;
    event.name = Intern(raw.name);
    event.track = TrackOf(raw);
    event.correlation = Narrow(raw.correlation);
    event.external = Narrow(raw.external);
    event.category = category;
    return event;
  }

  void Keep(const Event& event) {
    // The memory is estimated only now and then, as the sum takes time.
    if (trace_.events.size() % 65536 == 0 && trace_.memory_bytes() > options_.max_memory_bytes) {
      full_ = true;
    }
    if (!full_) {
      if (options_.places) trace_.places.push_back(trace_.report.events - 1);
      return trace_.events.Add(event);
    }
    if (!trace_.report.cut) Note("events from here on do not fit into the memory allowed");
    trace_.report.cut = trace_.report.full = true;
  }

  uint32_t Detail(const RawEvent& raw, Category category) {
    if (category == Category::kKernel && raw.has_note) return TakeNote(raw);
    if (category == Category::kUserAnnotation && raw.has_operator) return TakeOperator(raw);
    if (category == Category::kMemcpy || category == Category::kMemset) {
      return raw.bytes > 0 ? Narrow(std::min<int64_t>(raw.bytes / 1024 + 1, 1u << 31)) : 0;
    }
    if (category != Category::kCpuOp || !options_.shapes) return 0;
    if (raw.shapes.size() < 3 || raw.shapes.size() + raw.types.size() > kMaxShapesText) return 0;
    scratch_.assign(raw.shapes);
    scratch_.push_back('|');
    scratch_.append(raw.types);
    return trace_.strings.Add(scratch_);
  }

  uint32_t TakeNote(const RawEvent& raw) {
    CollectiveNote note;
    note.name = Intern(raw.collective);
    note.dtype = Intern(raw.dtype);
    note.group_name = Intern(raw.group_name);
    note.group_description = Intern(raw.group_description);
    note.group_ranks = Intern(raw.group_ranks);
    note.in_elements = raw.in_elements;
    note.out_elements = raw.out_elements;
    note.group_size = raw.group_size;
    note.sequence = raw.sequence;
    note.source_rank = raw.source_rank;
    note.destination_rank = raw.destination_rank;
    note.rank_start = raw.rank_start;
    note.rank_stride = raw.rank_stride;
    note.cpu_ns = raw.cpu_ns;
    trace_.notes.push_back(note);
    return static_cast<uint32_t>(trace_.notes.size());
  }

  uint32_t TakeOperator(const RawEvent& raw) {
    OperatorNote note;
    note.kind = Intern(raw.model_operator);
    note.sizes = Intern(raw.sizes);
    note.backward = raw.direction == "backward";
    note.layer = raw.layer;
    note.micro_batch = raw.micro_batch;
    note.cpu_ns = std::max<int64_t>(0, raw.cpu_ns);
    trace_.operator_notes.push_back(note);
    return static_cast<uint32_t>(trace_.operator_notes.size());
  }

  // A begin, or the end that goes with the latest open begin of its thread.
  void TakePair(const RawEvent& raw) {
    if (!raw.has_time) return Note("a begin or end without a time");
    const uint32_t track = TrackOf(raw);
    // The row is kept at its begin, so that rows stay in the order of the file; the end fills in
    // its duration.
    std::vector<std::pair<size_t, int64_t>>& open = open_[track];
    if (raw.phase == 'B') {
      open.emplace_back(trace_.events.size(), raw.time_ns);
      return Keep(Basic(raw, CategoryOf(raw.category)));
    }
    if (open.empty()) return Note("an end without its begin");
    const auto [row, start] = open.back();
    open.pop_back();
    int64_t duration = 0;
    if (row < trace_.events.size() && !__builtin_sub_overflow(raw.time_ns, start, &duration)) {
      trace_.events.SetDuration(row, std::max<int64_t>(duration, 0));
    }
  }

  void Finish() {
    trace_.events.Shift(trace_.metadata.base_time_ns);
    trace_.events.Shrink();
    if (trace_.metadata.rank == kNoRank) trace_.metadata.rank = RankInName(trace_.path);
    trace_.report.json_bytes = window_.offset() + window_.size();
    trace_.report.file_bytes = source_.file_bytes();
  }

  ByteSource& source_;
  const ReadOptions& options_;
  Window window_;
  RankTrace trace_;
  bool started_ = false;
  bool trace_like_ = false;
  bool full_ = false;
  std::string scratch_;
  std::array<uint32_t, 256> recent_tracks_ = {};
  std::unordered_map<uint64_t, std::vector<uint32_t>> tracks_;
  std::unordered_map<uint32_t, std::vector<std::pair<size_t, int64_t>>> open_;
};

}  // namespace

Result<RankTrace> ReadKineto(ByteSource& source, const std::string& path,
                             const ReadOptions& options) {
  return KinetoReader(source, options).Read(path);
}

int64_t RankInName(std::string_view path) {
  const size_t slash = path.rfind('/');
  const std::string_view name = slash == path.npos ? path : path.substr(slash + 1);
  for (size_t at = name.find("rank"); at != name.npos; at = name.find("rank", at + 1)) {
    size_t digit = at + 4;
    while (digit < name.size() && std::string_view("-_[.=").find(name[digit]) != name.npos) ++digit;
    int64_t rank = 0;
    const auto [end, error] = std::from_chars(name.data() + digit, name.data() + name.size(), rank);
    if (error == std::errc() && rank >= 0) return rank;
  }
  return kNoRank;
}

}  // namespace longhaul::profiler
