# What bash, zsh and fish complete by the scripts of `howdah completions`, in the shell itself: commands, their options and values,
# and the file of an application, also before and behind options. A shell that is not there is left out.
use strict;
use warnings;
use lib 't/lib';

use File::Temp qw(tempdir);
use Howdah::Test::Command qw(run_command run_howdah);
use Howdah::Test::File qw(write_file);
use Test::More;

my $dir = tempdir(CLEANUP => 1);

# A line, and what has to be offered behind it.
my @cases = (
    ['howdah --work', '--workers'],
    ['howdah re', 'reload', 'reopen'],
    ['howdah sho', 'shop.psgi'],
    ['howdah --log-level ', 'debug', 'error', 'info', 'warn'],
    ['howdah --hsts --tls-cert shop.pem --tls-m', '--tls-min'],
    ['howdah --workers 3 --cgi-mode ', 'auto', 'exec', 'fork', 'keep'],
    ['howdah shop.psgi --tls-m', '--tls-min'],
    ['howdah shop.psgi --http2 ', 'off', 'on'],
    ['howdah check --tls-m', '--tls-min'],
    ['howdah check sho', 'shop.psgi'],
    ['howdah status --js', '--json'],
    ['howdah trace ', 'exec', 'fork'],
    ['howdah leaks --format ', 'devel-leak-object', 'json', 'text'],
);

write_file("$dir/shop.psgi", '');

# As bash calls it, and what it does by itself (-o default) where nothing is offered.
my $bash = write_file("$dir/bash.driver", <<'END');
cd "$1" && source ./howdah.bash || exit
while IFS=: read -r line wanted; do
    read -ra COMP_WORDS <<<"$line"
    [[ $line == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
    _howdah howdah "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
    [ ${#COMPREPLY[@]} = 0 ] && COMPREPLY=($(compgen -f -- "${COMP_WORDS[-1]}"))
    echo "$line: ${COMPREPLY[*]}"
done <lines
END

my $fish = write_file("$dir/fish.driver", <<'END');
cd $argv[1]; source ./howdah.fish
while read --delimiter : -l line wanted
    echo "$line:" (complete -C "$line" | string replace -r '\t.*' '' | string join ' ')
end <lines
END

# By a terminal, since completion is the line editor's. It waits for all words before the next line: no list is made while
# there is more to read.
my $zsh = write_file("$dir/zsh.driver", <<'END');
zmodload zsh/zpty; cd $1; mkdir -p zsh; cp howdah.zsh zsh/_howdah
zpty shell zsh -f -i
zpty -w shell "PS1=; stty cols 200 rows 200; fpath=($1/zsh \$fpath); autoload -U compinit; compinit -u -D"
zpty -w shell "bindkey '^I' list-choices; LISTMAX=500; print rea''dy"
zpty -r shell out '*ready*'
while IFS=: read -r line wanted; do
    zpty -w -n shell $'\x15'"$line"$'\t'
    zpty -r shell out "*$wanted*"
    print -r -- "$line: ${${out//$'\e'[^a-zA-Z]#[a-zA-Z]/ }//[[:space:]]##/ } "
done <lines
zpty -d shell
END

write_file("$dir/lines", join "\n", map { my ($line, @wanted) = @$_; join ':', $line, join '*', @wanted } @cases);
my %run = (
    bash => ['bash', '--norc', $bash, $dir],
    fish => ['fish', '--no-config', $fish, $dir],
    zsh  => ['zsh', '-f', '-o', 'extendedglob', $zsh, $dir],
);

for my $shell (sort keys %run) {
    subtest $shell => sub {
        plan skip_all => "there is no $shell" if !grep { -x "$_/$shell" } split /:/, $ENV{PATH};
        write_file("$dir/howdah.$shell", (run_howdah('completions', $shell))[1]);
        local $ENV{HOME} = $dir;
        my ($status, $out, $err) = run_command('timeout', 90, @{$run{$shell}});
        is "$status$err", 0, 'nothing is wrong with the script';
        for my $case (@cases) {
            my ($line, @wanted) = @$case;
            my ($offered) = $out =~ /^\Q$line\E: (.*)/m;
            my @missing = grep { ($offered // '') !~ /(?<!\S)\Q$_\E(?!\S)/ } @wanted;
            is "@missing", '', "$line: @wanted" or diag $offered // $out;
        }
    };
}

done_testing;
