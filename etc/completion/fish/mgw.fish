# Completion for fish; to use it in a shell: mgw completion fish | source

# Whether the words so far begin with these commands; with -n, whether there are no others.
function __mgw_at
    argparse n -- $argv; or return
    set -l words (commandline -opc)
    set -e words[1]
    for command in $argv
        test (count $words) -gt 0; and test $words[1] = $command; or return
        set -e words[1]
    end
    not set -q _flag_n; or test (count $words) -eq 0
end

complete -c mgw -f
complete -c mgw -n '__mgw_at -n' -a run -d 'run the gateway in the foreground, logging to standard error'
complete -c mgw -n '__mgw_at -n' -a check -d 'check the configuration, and print where requests will go'
complete -c mgw -n '__mgw_at -n' -a reload -d 'check the configuration of a running gateway, and reload it'
complete -c mgw -n '__mgw_at -n' -a sim -d 'run a simulated provider that needs no key'
complete -c mgw -n '__mgw_at -n' -a auth -d 'log in to subscription accounts, and manage them'
complete -c mgw -n '__mgw_at -n' -a routes -d 'list the routes that the gateway serves'
complete -c mgw -n '__mgw_at -n' -a models -d 'list the models that a configuration offers'
complete -c mgw -n '__mgw_at -n' -a usage -d 'add up the usage events in the SQLite file of hooks.sqlite'
complete -c mgw -n '__mgw_at -n' -a tail -d 'print the events of a running gateway as they happen'
complete -c mgw -n '__mgw_at -n' -a schema -d 'print a JSON schema of the configuration, for editors'
complete -c mgw -n '__mgw_at -n' -a example -d 'print a configuration with every setting, explained'
complete -c mgw -n '__mgw_at -n' -a completion -d 'print the completion script for a shell'
complete -c mgw -n '__mgw_at -n' -a help -d 'show the options of a command, with examples'
complete -c mgw -n '__mgw_at -n' -a version -d 'print the version'
complete -c mgw -n '__mgw_at -n' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at -n' -s V -l version -d 'print the version and exit'
complete -c mgw -n '__mgw_at run' -F
complete -c mgw -n '__mgw_at run' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at run' -s c -l config -r -F -d 'the configuration file, as an option'
complete -c mgw -n '__mgw_at run' -l log-file -r -F -d 'log to this file'
complete -c mgw -n '__mgw_at check' -F
complete -c mgw -n '__mgw_at check' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at check' -s c -l config -r -F -d 'the configuration file, as an option'
complete -c mgw -n '__mgw_at reload' -F
complete -c mgw -n '__mgw_at reload' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at reload' -s c -l config -r -F -d 'the configuration file, as an option'
complete -c mgw -n '__mgw_at reload' -l pid -x -d 'the process id of the gateway, if several are running'
complete -c mgw -n '__mgw_at reload' -l timeout -x -d 'how long to wait for the outcome'
complete -c mgw -n '__mgw_at sim' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at sim' -s l -l listen -x -d 'the address to listen on'
complete -c mgw -n '__mgw_at -n auth' -a login -d 'log in to an account, and keep its tokens in the credential store'
complete -c mgw -n '__mgw_at -n auth' -a import -d 'import the tokens of another program from a JSON file'
complete -c mgw -n '__mgw_at -n auth' -a list -d 'list the accounts in the credential store'
complete -c mgw -n '__mgw_at -n auth' -a status -d 'show whether accounts can be used; exit with 1 if one cannot'
complete -c mgw -n '__mgw_at -n auth' -a logout -d 'remove an account, and revoke its tokens if the profile says where'
complete -c mgw -n '__mgw_at auth' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at auth login' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at auth login' -l profile -x -d 'the profile'
complete -c mgw -n '__mgw_at auth login' -l device -d 'enter a code on another device'
complete -c mgw -n '__mgw_at auth login' -l paste -d 'paste the code from the browser here'
complete -c mgw -n '__mgw_at auth login' -l timeout -x -d 'give up after this time'
complete -c mgw -n '__mgw_at auth login' -s c -l config -r -F -d 'the configuration file'
complete -c mgw -n '__mgw_at auth import' -F
complete -c mgw -n '__mgw_at auth import' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at auth import' -l profile -x -d 'the profile'
complete -c mgw -n '__mgw_at auth import' -l at -x -d 'where the tokens are in the file'
complete -c mgw -n '__mgw_at auth import' -s c -l config -r -F -d 'the configuration file'
complete -c mgw -n '__mgw_at auth list' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at auth list' -l json -d 'print JSON'
complete -c mgw -n '__mgw_at auth list' -s c -l config -r -F -d 'the configuration file'
complete -c mgw -n '__mgw_at auth status' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at auth status' -s c -l config -r -F -d 'the configuration file'
complete -c mgw -n '__mgw_at auth logout' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at auth logout' -l keep-tokens -d 'do not revoke its tokens'
complete -c mgw -n '__mgw_at auth logout' -s c -l config -r -F -d 'the configuration file'
complete -c mgw -n '__mgw_at routes' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at routes' -l family -x -a 'openai anthropic gemini' -d 'only routes for clients of this family'
complete -c mgw -n '__mgw_at routes' -s c -l config -r -F -d 'leave out routes that this configuration file does not serve'
complete -c mgw -n '__mgw_at routes' -l format -x -a 'table csv json' -d 'the output format'
complete -c mgw -n '__mgw_at models' -F
complete -c mgw -n '__mgw_at models' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at models' -s c -l config -r -F -d 'the configuration file, as an option'
complete -c mgw -n '__mgw_at models' -l key -x -d 'only models that the gateway key of this name may use'
complete -c mgw -n '__mgw_at models' -l format -x -a 'table csv json' -d 'the output format'
complete -c mgw -n '__mgw_at usage' -F
complete -c mgw -n '__mgw_at usage' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at usage' -s c -l config -r -F -d 'the configuration file, as an option'
complete -c mgw -n '__mgw_at usage' -l database -r -F -d 'an SQLite file, instead of a configuration'
complete -c mgw -n '__mgw_at usage' -l by -x -a 'client model day provider status' -d 'one or more of client, model, day, provider, status, separated by commas'
complete -c mgw -n '__mgw_at usage' -l since -x -d 'only events since then: a date such as 2026-01-31, a time such as 2026-01-31T12:00:00Z, or an age such as 7d or 12h'
complete -c mgw -n '__mgw_at usage' -l until -x -d 'only events before this time'
complete -c mgw -n '__mgw_at usage' -l format -x -a 'table csv json' -d 'the output format'
complete -c mgw -n '__mgw_at tail' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at tail' -l url -x -d 'the gateway\'s address, as an option'
complete -c mgw -n '__mgw_at tail' -l key-env -x -d 'environment variable with a key for the dashboard'
complete -c mgw -n '__mgw_at tail' -l kinds -x -a 'usage log health session' -d 'one or more of usage, log, health, session, separated by commas'
complete -c mgw -n '__mgw_at tail' -l client -x -d 'only events of this client'
complete -c mgw -n '__mgw_at tail' -l model -x -d 'only events of this model'
complete -c mgw -n '__mgw_at tail' -l provider -x -d 'only events of this provider'
complete -c mgw -n '__mgw_at tail' -l status -x -a 'ok upstream_error client_abort rejected 4xx 5xx' -d 'only events with this status: a word such as upstream_error, or 429, or 5xx'
complete -c mgw -n '__mgw_at tail' -l format -x -a 'line json' -d 'the output format'
complete -c mgw -n '__mgw_at schema' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at example' -a 'envoy.yaml grafana-dashboard.json haproxy.cfg mgw-demo.yaml mgw-profile-simulator.yaml mgw.schema.json mgw.yaml nginx.conf prices.example.yaml prometheus-alerts.yaml'
complete -c mgw -n '__mgw_at example' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at completion' -a 'bash zsh fish'
complete -c mgw -n '__mgw_at completion' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at help' -a 'run check reload sim auth routes models usage tail schema example completion help version'
complete -c mgw -n '__mgw_at help' -s h -l help -d 'show this help message and exit'
complete -c mgw -n '__mgw_at version' -s h -l help -d 'show this help message and exit'
