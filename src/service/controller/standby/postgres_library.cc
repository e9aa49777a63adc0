#include "service/controller/standby/postgres_library.h"

#include <dlfcn.h>

#include <string>

namespace longhaul::service {
namespace {

constexpr const char* kPostgresLibrary = "libpq.so.5";

Result<PostgresLibrary> OpenPostgresLibrary() {
  void* const handle = dlopen(kPostgresLibrary, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return FailedPrecondition(
        "a log in PostgreSQL needs the library libpq.so.5, which cannot be opened on this machine: "
        "install it (Debian: apt install libpq5)");
  }
  PostgresLibrary library{};
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr) missing = name;
  };
  find("PQconninfoParse", library.conninfo_parse);
  find("PQconninfoFree", library.conninfo_free);
  find("PQfreemem", library.free_memory);
  find("PQconnectStartParams", library.connect_start);
  find("PQconnectPoll", library.connect_poll);
  find("PQstatus", library.status);
  find("PQerrorMessage", library.error_message);
  find("PQfinish", library.finish);
  find("PQsocket", library.socket);
  find("PQsetnonblocking", library.set_nonblocking);
  find("PQsendQueryParams", library.send_query);
  find("PQflush", library.flush);
  find("PQconsumeInput", library.consume_input);
  find("PQisBusy", library.is_busy);
  find("PQgetResult", library.get_result);
  find("PQresultStatus", library.result_status);
  find("PQresultErrorMessage", library.result_error);
  find("PQresultErrorField", library.result_error_field);
  find("PQntuples", library.rows);
  find("PQgetvalue", library.value);
  find("PQgetlength", library.length);
  find("PQclear", library.clear);
  if (missing.empty()) return library;
  return FailedPrecondition(std::string(kPostgresLibrary) + " has no function " + missing +
                            ": install libpq5 of PostgreSQL 10 or newer");
}

}  // namespace

Result<const PostgresLibrary*> LoadPostgresLibrary() {
  static const Result<PostgresLibrary> library = OpenPostgresLibrary();
  if (!library.ok()) return library.status();
  return &*library;
}

}  // namespace longhaul::service
