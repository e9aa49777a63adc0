#include "profiler/read/nsight_reader.h"

#include <sqlite3.h>

#include <cstring>
#include <limits>
#include <map>
#include <memory>

#include "profiler/read/kineto_reader.h"

namespace longhaul::profiler {
namespace {

constexpr int kStepsBetweenChecks = 100'000;
constexpr int kMaxChecks = 10'000'000;  // a damaged index must not make a query endless
constexpr int64_t kHostPid = int64_t{1} << 40;

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct FinishStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinishStatement>;

class NsightReader {
 public:
  explicit NsightReader(sqlite3* database) : database_(database) {
    sqlite3_progress_handler(database, kStepsBetweenChecks, &NsightReader::Tick, this);
  }

  Result<RankTrace> Read(const std::string& path) {
    trace_.path = path;
    if (!Has("StringIds")) {
      return InvalidArgument(path +
                             " is an SQLite database but no export of Nsight Systems: it "
                             "has no table StringIds");
    }
    trace_.metadata.rank = RankInName(path);
    NameDevice();
    Query(
        "SELECT k.start, k.end, s.value, k.deviceId, k.streamId, k.correlationId "
        "FROM CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN StringIds s ON s.id = k.demangledName",
        "CUPTI_ACTIVITY_KIND_KERNEL",
        [&](sqlite3_stmt* row) { Device(row, Category::kKernel, Text(row, 2)); });
    Query(
        "SELECT start, end, bytes, deviceId, streamId, correlationId FROM "
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        [&](sqlite3_stmt* row) { Device(row, Category::kMemcpy, "Memcpy"); });
    Query(
        "SELECT start, end, bytes, deviceId, streamId, correlationId FROM "
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "CUPTI_ACTIVITY_KIND_MEMSET",
        [&](sqlite3_stmt* row) { Device(row, Category::kMemset, "Memset"); });
    Query(
        "SELECT r.start, r.end, s.value, r.globalTid, r.correlationId FROM "
        "CUPTI_ACTIVITY_KIND_RUNTIME r LEFT JOIN StringIds s ON s.id = r.nameId",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        [&](sqlite3_stmt* row) { Host(row, Category::kRuntime, sqlite3_column_int64(row, 4)); });
    Query(
        "SELECT n.start, n.end, coalesce(n.text, s.value), n.globalTid FROM NVTX_EVENTS n LEFT "
        "JOIN StringIds s ON s.id = n.textId WHERE n.end IS NOT NULL",
        "NVTX_EVENTS", [&](sqlite3_stmt* row) { Host(row, Category::kUserAnnotation, 0); });
    trace_.events.Shrink();
    return std::move(trace_);
  }

 private:
  static int Tick(void* self) {
    return ++static_cast<NsightReader*>(self)->checks_ > kMaxChecks ? 1 : 0;
  }

  bool Has(const char* table) {
    sqlite3_stmt* raw = nullptr;
    sqlite3_prepare_v2(database_, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?",
                       -1, &raw, nullptr);
    const Statement statement(raw);
    if (statement == nullptr) return false;
    sqlite3_bind_text(raw, 1, table, -1, SQLITE_STATIC);
    return sqlite3_step(raw) == SQLITE_ROW;
  }

  bool HasColumn(const char* table, const char* column) {
    sqlite3_stmt* raw = nullptr;
    sqlite3_prepare_v2(database_, "SELECT 1 FROM pragma_table_info(?) WHERE name = ?", -1, &raw,
                       nullptr);
    const Statement statement(raw);
    if (statement == nullptr) return false;
    sqlite3_bind_text(raw, 1, table, -1, SQLITE_STATIC);
    sqlite3_bind_text(raw, 2, column, -1, SQLITE_STATIC);
    return sqlite3_step(raw) == SQLITE_ROW;
  }

  // The machine may have GPUs of several kinds, listed in any order: that of the kernels counts.
  void NameDevice() {
    int64_t used = 0;
    Query("SELECT deviceId FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1", "CUPTI_ACTIVITY_KIND_KERNEL",
          [&](sqlite3_stmt* row) { used = sqlite3_column_int64(row, 0); });
    if (!Has("TARGET_INFO_GPU")) return;
    // Older exports number GPUs by id alone.
    const char* number = HasColumn("TARGET_INFO_GPU", "cuDevice") ? "cuDevice"
                         : HasColumn("TARGET_INFO_GPU", "id")     ? "id"
                                                                  : "0";
    const std::string sql = "SELECT name FROM TARGET_INFO_GPU ORDER BY " + std::string(number) +
                            " = " + std::to_string(used) + " DESC LIMIT 1";
    Query(sql.c_str(), "TARGET_INFO_GPU",
          [&](sqlite3_stmt* row) { trace_.metadata.device_name = Text(row, 0); });
  }

  // Calls `take` with each row; what fails is a damage of the report.
  template <typename Take>
  void Query(const char* sql, const char* table, Take take) {
    if (!Has(table)) return;
    sqlite3_stmt* raw = nullptr;
    int code = sqlite3_prepare_v2(database_, sql, -1, &raw, nullptr);
    const Statement statement(raw);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
      code = sqlite3_step(raw);
      if (code != SQLITE_ROW) break;
      ++trace_.report.events;
      take(raw);
    }
    if (code == SQLITE_DONE) return;
    ++trace_.report.damages;
    trace_.report.kept.push_back(
        {0, 0, std::string("table ") + table + ": " + sqlite3_errmsg(database_)});
  }

  static std::string Text(sqlite3_stmt* row, int column) {
    const unsigned char* text = sqlite3_column_text(row, column);
    return text == nullptr ? "" : reinterpret_cast<const char*>(text);
  }
  static uint32_t Narrow(int64_t value) {
    return value > 0 && value <= std::numeric_limits<uint32_t>::max() ? static_cast<uint32_t>(value)
                                                                      : 0;
  }

  void Device(sqlite3_stmt* row, Category category, const std::string& name) {
    Event event = Span(row, category, name);
    event.track = TrackOf(sqlite3_column_int64(row, 3), sqlite3_column_int64(row, 4));
    event.correlation = Narrow(sqlite3_column_int64(row, 5));
    if (category != Category::kKernel) {
      event.detail = Narrow(sqlite3_column_int64(row, 2) / 1024 + 1);
    }
    trace_.events.Add(event);
  }

  void Host(sqlite3_stmt* row, Category category, int64_t correlation) {
    Event event = Span(row, category, Text(row, 2));
    // The number of a thread holds process and thread; no device has so high a number.
    event.track = TrackOf(kHostPid, sqlite3_column_int64(row, 3));
    event.correlation = Narrow(correlation);
    trace_.events.Add(event);
  }

  Event Span(sqlite3_stmt* row, Category category, const std::string& name) {
    Event event;
    event.start_ns = sqlite3_column_int64(row, 0);
    int64_t duration = 0;
    const bool absurd =
        __builtin_sub_overflow(sqlite3_column_int64(row, 1), event.start_ns, &duration);
    event.duration_ns = absurd || duration < 0 ? kNoDuration : duration;
    event.category = category;
    event.name = trace_.strings.Add(name);
    return event;
  }

  uint32_t TrackOf(int64_t pid, int64_t tid) {
    const auto [place, fresh] =
        tracks_.emplace(std::pair(pid, tid), static_cast<uint32_t>(trace_.tracks.size()));
    if (fresh) trace_.tracks.push_back({pid, tid, 0, 0});
    return place->second;
  }

  sqlite3* const database_;
  RankTrace trace_;
  int checks_ = 0;
  std::map<std::pair<int64_t, int64_t>, uint32_t> tracks_;
};

}  // namespace

bool IsSqlite(std::string_view head) {
  return head.starts_with(std::string_view("SQLite format 3\0", 16));
}

Result<RankTrace> ReadNsight(const std::string& path) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
  const Database database(raw);
  if (code != SQLITE_OK) return DataLoss("cannot open " + path + ": " + sqlite3_errstr(code));
  return NsightReader(raw).Read(path);
}

Result<RankTrace> ReadNsightBytes(std::string_view bytes, const std::string& path) {
  sqlite3* raw = nullptr;
  int code = sqlite3_open_v2(":memory:", &raw, SQLITE_OPEN_READWRITE, nullptr);
  const Database database(raw);
  if (code != SQLITE_OK) return DataLoss(sqlite3_errstr(code));
  auto* copy = static_cast<unsigned char*>(sqlite3_malloc64(bytes.size() + 1));
  if (copy == nullptr) return ResourceExhausted("no memory for " + path);
  if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  const auto size = static_cast<sqlite3_int64>(bytes.size());
  code = sqlite3_deserialize(raw, "main", copy, size, size,
                             SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
  if (code != SQLITE_OK) return DataLoss(path + ": " + sqlite3_errstr(code));
  return NsightReader(raw).Read(path);
}

}  // namespace longhaul::profiler
