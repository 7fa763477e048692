# What `cmake --install` puts where: the program, its documents, the systemd unit, the files of deploy/, and the bundled
# models, which a program in PREFIX/bin looks for in PREFIX/share/quire/models.
include(GNUInstallDirs)
install(TARGETS quire RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/quire/models
  FILES_MATCHING PATTERN "*.gguf" PATTERN "*.md" PATTERN "tokenizer.json")
# The default model where it was fetched (src/app/bundled.h): an installed program has it without a home folder.
install(CODE [[
  execute_process(COMMAND "${CMAKE_CURRENT_LIST_DIR}/quire" pull --offline OUTPUT_VARIABLE model
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE none)
  if(none EQUAL 0)
    file(INSTALL "${model}" DESTINATION "${CMAKE_INSTALL_PREFIX}/share/quire/models")
  endif()
]])
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
configure_file(deploy/quire.service.in ${CMAKE_BINARY_DIR}/quire.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/quire.service DESTINATION lib/systemd/system)
install(FILES deploy/nginx.conf deploy/Caddyfile DESTINATION ${CMAKE_INSTALL_DATADIR}/quire/deploy)
install(DIRECTORY deploy/grafana deploy/kubernetes deploy/prometheus DESTINATION ${CMAKE_INSTALL_DATADIR}/quire/deploy)
