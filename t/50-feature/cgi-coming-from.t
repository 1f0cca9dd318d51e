# What docs/cgi.md says to those who come from httpd: its httpd.conf, in a real httpd, and the command beside it serve the same
# scripts, which answer alike. Both are taken out of that page, with other directories.
use strict;
use warnings;
use lib 't/lib';

use File::Path qw(make_path);
use File::Temp ();
use Howdah::Test::Agent;
use Howdah::Test::Apache;
use Howdah::Test::Server;
use Test::More;
use Text::ParseWords qw(shellwords);

Howdah::Test::Apache->is_installed && Howdah::Test::Apache->has_module('perl')
    or plan skip_all => 'no httpd with mod_perl is installed';

my $top = File::Temp->newdir;
chmod 0755, "$top" or die $!;
make_path(map { "$top/$_" } qw(www cgi-bin perl/lib/My));
my $head = 'print "Content-Type: text/plain\n\n";';
script('cgi-bin/env.cgi', qq($head print map { "\$_=\$ENV{\$_}\\n" } sort keys %ENV; print "words=\@ARGV\\n";));
script('perl/env.cgi', qq($head print map { "\$_=\$ENV{\$_}\\n" } sort keys %ENV;));
script('cgi-bin/index.cgi', qq($head print "index, as \$ENV{SCRIPT_NAME}\\n";));
script('cgi-bin/.old.cgi', qq($head print "hidden\\n";));
script('perl/started.cgi', qq($head print My::Startup::word();));
script('gitweb.cgi', qq($head print "gitweb, as \$ENV{SCRIPT_NAME}, and \$ENV{PATH_INFO}\\n";));
file('perl/lib/My/Startup.pm', qq(package My::Startup; sub word { "started\\n" } 1;\n));
file('perl/startup.pl', qq(use lib '$top/perl/lib'; require My::Startup; 1;\n));
symlink "$top/cgi-bin/env.cgi", "$top/cgi-bin/link.cgi" or die $!;
symlink "$top/gitweb.cgi", "$top/cgi-bin/out.cgi" or die $!;

sub file {
    my ($name, $text) = @_;
    open my $out, '>', "$top/$name" or die $!;
    print {$out} $text;
    close $out or die $!;
    return chmod 0755, "$top/$name";
}
sub script { my ($name, $code) = @_; return file($name, "#!/usr/bin/perl\n$code\n") }

open my $in, '<', 'docs/cgi.md' or die $!;
my ($section) = join('', <$in>) =~ /^## Coming from mod_cgi and mod_perl\n(.*?)(?=^## |\z)/ms;
$section =~ s{/srv}{$top}g;
$section =~ s{[^\s=]+/gitweb\.cgi}{$top/gitweb.cgi}g;
my @blocks    = $section =~ /((?:^ {4}.*\n|^\n)+)/mg;
my ($conf)    = grep { /ScriptAlias/ } @blocks;
my ($command) = grep { /^ +howdah /m } @blocks;
$conf =~ s/^ *(?:MaxRequestWorkers|MaxConnectionsPerChild) .*\n//mg;    # this httpd is one process
$ENV{LANG} = 'C.UTF-8';
my $apache = Howdah::Test::Apache->start(
    mpm     => 'prefork',
    modules => [qw(alias cgi dir env perl)],
    scripts => "$top",
    lines   => $conf
);
my @options = grep { defined } (shellwords($command =~ s/\\\n//gr))[1 .. 99];
my %own     = map { ($_ => 1, $_ + 1 => 1) } grep { $options[$_] =~ /^--(?:listen|user)$/ } 0 .. $#options;
my $howdah  = Howdah::Test::Server->start(options => [map { $own{$_} ? () : $options[$_] } 0 .. $#options]);

# What httpd and Howdah answer: [status, body] of each.
sub both {
    my $path = shift;
    return map { [Howdah::Test::Agent->new($_)->curl($path, '-u', 'Ada:x')] } $apache->url, $howdah->url;
}

subtest 'what is the same' => sub {
    my %is = (
        '/cgi-bin/'               => "index, as /cgi-bin/index.cgi\n",
        '/gitweb/project.git'     => "gitweb, as /gitweb, and /project.git\n",
        '/perl/started.cgi'       => "started\n",
        '/cgi-bin/link.cgi/x?a+b' => qr/^PATH_INFO=\/x\n.*^SCRIPT_NAME=\/cgi-bin\/link\.cgi\n.*^words=a b$/ms,
    );
    for my $path (sort keys %is) {
        my ($httpd, $ours) = both($path);
        for ([httpd => $httpd], [Howdah => $ours]) {
            my ($who, $answer) = @$_;
            like $answer->[1], ref $is{$path} ? $is{$path} : qr/^\Q$is{$path}\E$/, "$path by $who";
        }
    }
    is_deeply [map { $_->[0] } both('/cgi-bin/none.cgi')], [404, 404], 'what is not there';
};

subtest 'what is refused here, and not there' => sub {
    is_deeply [map { $_->[0] } both("/cgi-bin/$_")], [200, 403], $_ for '.old.cgi', 'out.cgi';
};

# Variables that only httpd has, and only Howdah, and that have other values.
my @not_set = qw(CONTEXT_DOCUMENT_ROOT CONTEXT_PREFIX SERVER_ADMIN SERVER_SIGNATURE);
my @more    = qw(HTTP_X_REQUEST_ID REMOTE_HOST UNIQUE_ID);
my @other   = qw(HTTP_HOST REMOTE_PORT SERVER_PORT SERVER_SOFTWARE);
my %differ  = (
    '/cgi-bin/env.cgi/a/b?c=d' => [\@not_set, \@more, \@other],
    '/perl/env.cgi/a/b?c=d'    =>
        [[qw(MOD_PERL MOD_PERL_API_VERSION), @not_set], [qw(HTTP_AUTHORIZATION LANG SHOP_DB), @more], \@other],
);
for my $path (sort keys %differ) {
    subtest "variables of $path" => sub {
        my ($httpd, $ours) = map { { $_->[1] =~ /^(?!HOWDAH_|words)(\w+)=(.*)$/mg } } both($path);
        my ($theirs, $mine, $values) = @{$differ{$path}};
        is_deeply [sort grep { !exists $ours->{$_} } keys %$httpd], [sort @$theirs], 'only httpd has';
        is_deeply [sort grep { !exists $httpd->{$_} } keys %$ours], [sort @$mine], 'only Howdah has';
        my @both = grep { exists $ours->{$_} } sort keys %$httpd;
        is_deeply [grep { $httpd->{$_} ne $ours->{$_} } @both], $values, 'have other values';
    };
}

done_testing;
